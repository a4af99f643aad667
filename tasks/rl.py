"""Stage `rl SEED`: the reinforcement stage."""

import shutil
import sys

from talentrl import layout
from talentrl.benchmarks.taskset import TaskSet
from talentrl.config import Params
from talentrl.learning.callbacks import StepMetrics
from talentrl.learning.history import write_history
from talentrl.learning.resuming import scratch_folder
from talentrl.learning.rl import train_rl
from talentrl.provenance import content_digest
from talentrl.rollouts.assembly import open_runner
from talentrl.rollouts.episode import write_episodes
from talentrl.tracking import Run
from tasks.stage import run_stage, tag_parts


def run(params: Params, run: Run) -> None:
    """Train the checkpoint that `rl.start` names with the command line's seed; a killed run resumes."""
    seed = int(sys.argv[1])
    checkpoint = layout.MODEL if params.rl.start == "model" else layout.SFT / str(seed)
    scratch = scratch_folder(
        layout.SCRATCH,
        f"rl-{seed}",
        params.model_dump_json(include={"model", "retrieval", "rollout", "rl", "demos"}),
        content_digest(checkpoint),
        content_digest(layout.BANK),
        content_digest(layout.TASKS),
    )
    runner = open_runner(params, checkpoint)
    tag_parts(run, runner, checkpoint)
    run.tag("seed", str(seed))
    # Tasks without a demonstration: what the supervised stage has not seen.
    tasks = TaskSet.read(layout.TASKS).split("train")[params.demos.tasks :]
    output = layout.RL / str(seed)
    history, episodes = train_rl(runner, tasks, params.rl, seed, scratch, output, [StepMetrics(run.log)], params.model)
    online = [entry for entry in history if "loss" in entry]
    write_history(layout.METRICS / "history" / f"rl-{seed}.json", online)
    write_history(layout.METRICS / "history" / f"replay-{seed}.json", history[len(online) :])
    write_episodes(layout.RL_EPISODES / f"{seed}.parquet", episodes)
    shutil.rmtree(scratch)
    run.register(output, "rl", seed)


if __name__ == "__main__":
    run_stage("rl", run, {"tasks": layout.TASKS, "sft": layout.SFT})
