"""Stage `report`: compare the systems and write the HTML report."""

import importlib.metadata
import json
import platform
from collections.abc import Callable
from pathlib import Path

import polars as pl

from talentrl import layout
from talentrl.benchmarks.taskset import TASK_SCHEMA, read_parquet
from talentrl.config import Params
from talentrl.evaluation.report import write_report
from talentrl.evaluation.summary import summary_metrics
from talentrl.files import write_text
from talentrl.learning.history import read_history
from talentrl.rollouts.episode import read_episodes
from talentrl.tracking import Run
from tasks.stage import run_stage

_PACKAGES = ("torch", "transformers", "trl")


def run(params: Params, run: Run) -> None:
    """Read exactly the systems and seeds that params name, so that stale files of others are never shown."""
    evaluations: dict[str, pl.DataFrame] = {
        system: _all_seeds(params, read_episodes, layout.EVALUATION, f"{system}-{{seed}}.parquet")
        for system in params.evaluate.systems
    }
    histories = {
        stage: _all_seeds(params, read_history, layout.METRICS / "history", f"{stage}-{{seed}}.json")
        for stage in ("sft", "rl")
    }
    training = _all_seeds(params, pl.read_parquet, layout.RL_EPISODES, "{seed}.parquet")
    first = next(iter(evaluations.values()))
    write_report(
        layout.REPORT,
        evaluations=evaluations,
        tasks=read_parquet(layout.TASKS / "tasks.parquet", TASK_SCHEMA),
        histories=histories,
        rl_episodes=training,
        provenance={
            "benchmark": f"{params.tasks.benchmark}, {params.evaluate.split} split",
            "model": params.model.source,
            "encoder": str(first["encoder"][0]),
            "bank digest": str(first["bank_digest"][0]),
            "data seed": str(params.seed),
            "training seeds": ", ".join(map(str, params.seeds)),
            "Python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    )
    write_text(layout.METRICS / "summary.json", json.dumps(summary_metrics(evaluations), indent=1) + "\n")
    run.artifact(layout.REPORT)


def _all_seeds(params: Params, read: Callable[[Path], pl.DataFrame], folder: Path, name: str) -> pl.DataFrame:
    """The frames of all training seeds, told apart by `run_seed`."""
    frames = [
        read(folder / name.format(seed=seed)).with_columns(run_seed=pl.lit(seed, pl.Int64)) for seed in params.seeds
    ]
    return pl.concat(frames, how="diagonal_relaxed")


if __name__ == "__main__":
    run_stage("report", run, {"evaluation": layout.EVALUATION})
