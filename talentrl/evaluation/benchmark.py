"""A benchmark answered by one checkpoint, apart from the project's pipeline.

Task set, indices and episodes lie in a folder of their own, which has the layout of a project.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from talentrl import layout
from talentrl.bank.bank import SkillBank
from talentrl.benchmarks.load import load_benchmark
from talentrl.benchmarks.qa_cards import CARDS
from talentrl.config import Params, System
from talentrl.errors import InputError
from talentrl.evaluation.averages import average_table
from talentrl.evaluation.ceiling import recall_ceiling
from talentrl.evaluation.systems import evaluate_system
from talentrl.retrieval.backends import open_encoder
from talentrl.retrieval.cache import CachedEncoder
from talentrl.rollouts.assembly import build_indices, environment_kind, open_runner
from talentrl.rollouts.episode import episodes_frame, read_episodes, write_episodes


@dataclass(frozen=True)
class BenchmarkRun:
    """What an evaluation gave."""

    episodes: dict[str, pl.DataFrame]
    """By system."""
    card: dict[str, Any] | None
    """What to know of a question-answering set."""
    ceiling: pl.DataFrame | None
    """How many of its questions the passages can answer (`recall_ceiling`)."""


def evaluate_benchmark(params: Params, checkpoint: Path, systems: Sequence[System], root: Path) -> BenchmarkRun:
    """Episodes of each system on the first `evaluate.tasks` tasks of `evaluate.split`, greedy, all with `checkpoint`.

    They are also written to `root`, as `layout.EVALUATION` says.

    Raises:
        InputError: the benchmark, the bank or the checkpoint cannot be read, or has no such split.
    """
    bank = SkillBank.load(Path(params.bank.path))
    taskset = load_benchmark(params.tasks, params.seed)
    tasks = taskset.split(params.evaluate.split, params.evaluate.tasks)
    bank.write_json(root / layout.BANK)
    taskset.write(root / layout.TASKS)
    encoder = CachedEncoder(open_encoder(params.retrieval), layout.EMBEDDINGS)
    build_indices(bank, environment_kind(params.tasks.benchmark), encoder, params.retrieval, root)
    runner = open_runner(params, checkpoint, root)
    frames: dict[str, pl.DataFrame] = {}
    for system in systems:
        frames[system] = episodes_frame(evaluate_system(system, runner, tasks, params.seed))
        write_episodes(root / layout.EVALUATION / f"{system}-{params.seed}.parquet", frames[system])
    about = CARDS.get(params.tasks.benchmark)
    if about is None:
        return BenchmarkRun(frames, None, None)
    return BenchmarkRun(frames, about.record(taskset), recall_ceiling(taskset))


def averages(root: Path, metric: str) -> dict[str, pl.DataFrame]:
    """`average_table` of each system over the question-answering sets whose episodes lie in the folders of `root`.

    Raises:
        InputError: there are none.
    """
    files = [file for name in CARDS for file in sorted((root / name / layout.EVALUATION).glob("*.parquet"))]
    systems: dict[str, list[pl.DataFrame]] = {}
    for file in files:
        systems.setdefault(file.stem.rpartition("-")[0], []).append(read_episodes(file))
    if not systems:
        raise InputError(f"{root}: no episodes of {list(CARDS)}: `talentrl evaluate --benchmark NAME` makes them")
    return {system: average_table(pl.concat(frames), metric) for system, frames in systems.items()}
