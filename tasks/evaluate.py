"""Stage `evaluate SYSTEM SEED`: greedy episodes of one system on held-out tasks."""

import json
import sys
from typing import cast

from talentrl import layout
from talentrl.benchmarks.taskset import TaskSet
from talentrl.config import Params, System
from talentrl.evaluation.systems import checkpoint, evaluate_system
from talentrl.files import write_text
from talentrl.provenance import content_digest
from talentrl.rollouts.assembly import open_runner
from talentrl.rollouts.episode import episodes_frame, write_episodes
from talentrl.tracking import Run
from tasks.stage import run_stage, tag_parts


def run(params: Params, run: Run) -> None:
    """Evaluate the system and seed of the command line."""
    system, seed = cast(System, sys.argv[1]), int(sys.argv[2])
    model = checkpoint(system, seed)
    runner = open_runner(params, model)
    tag_parts(run, runner, model)
    run.tag("system", system)
    run.tag("seed", str(seed))
    tasks = TaskSet.read(layout.TASKS).split(params.evaluate.split, params.evaluate.tasks)
    episodes = episodes_frame(evaluate_system(system, runner, tasks, seed))
    name = f"{system}-{seed}"
    output = layout.EVALUATION / f"{name}.parquet"
    write_episodes(output, episodes)
    run.tag("episodes.path", output.as_posix())
    run.tag("episodes.md5", content_digest(output))
    means = {metric: episodes[metric].mean() for metric in ("return", "f1")}
    metrics = {**{metric: mean for metric, mean in means.items() if mean is not None}, "episodes": episodes.height}
    write_text(layout.METRICS / "evaluation" / f"{name}.json", json.dumps(metrics, indent=1) + "\n")
    run.log({f"evaluate/{system}/{key}": cast(float, value) for key, value in metrics.items()})


if __name__ == "__main__":
    run_stage("evaluate", run, {"tasks": layout.TASKS})
