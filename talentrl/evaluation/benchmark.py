"""A benchmark answered by one checkpoint, apart from the project's pipeline.

Task set, indices and episodes lie in a folder of their own, which has the layout of a project.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from talentrl import layout
from talentrl.bank.bank import SkillBank
from talentrl.benchmarks.load import load_benchmark
from talentrl.config import Params, System
from talentrl.evaluation.systems import evaluate_system
from talentrl.retrieval.backends import open_encoder
from talentrl.retrieval.cache import CachedEncoder
from talentrl.rollouts.assembly import build_indices, environment_kind, open_runner
from talentrl.rollouts.episode import episodes_frame, write_episodes


def evaluate_benchmark(
    params: Params, checkpoint: Path, systems: Sequence[System], root: Path
) -> dict[str, pl.DataFrame]:
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
    return frames
