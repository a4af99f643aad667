"""Stage `evaluate SYSTEM SEED`: greedy episodes of one system on held-out tasks."""

import json
import sys
from typing import cast

from talentrl import layout
from talentrl.benchmarks.taskset import TaskSet
from talentrl.config import Params, System
from talentrl.evaluation.systems import checkpoint, evaluate_system
from talentrl.files import write_text
from talentrl.rollouts.assembly import open_runner
from talentrl.rollouts.episode import episodes_frame, write_episodes
from talentrl.tracking import Run
from tasks.stage import run_stage


def run(params: Params, run: Run) -> None:
    """Evaluate the system and seed of the command line."""
    system, seed = cast(System, sys.argv[1]), int(sys.argv[2])
    runner = open_runner(params, checkpoint(system, seed))
    tasks = TaskSet.read(layout.TASKS).split(params.evaluate.split, params.evaluate.tasks)
    episodes = episodes_frame(evaluate_system(system, runner, tasks, seed))
    name = f"{system}-{seed}"
    write_episodes(layout.EVALUATION / f"{name}.parquet", episodes)
    metrics = {"return": episodes["return"].mean(), "f1": episodes["f1"].mean(), "episodes": episodes.height}
    write_text(layout.METRICS / "evaluation" / f"{name}.json", json.dumps(metrics, indent=1) + "\n")
    run.log({f"evaluate/{system}/{key}": cast(float, value) for key, value in metrics.items()})
    run.tag("skillbank.digest", runner.bank.digest)


if __name__ == "__main__":
    run_stage("evaluate", run, {"tasks": layout.TASKS})
