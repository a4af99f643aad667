"""Stage `demos`: the scripted teacher's demonstrations."""

import json

from talentrl import layout
from talentrl.benchmarks.taskset import TaskSet
from talentrl.benchmarks.teachers import play
from talentrl.config import Params
from talentrl.files import write_text
from talentrl.learning.demonstrations import choose_conversations, lint_demonstrations, measure_arms
from talentrl.rollouts.assembly import open_runner
from talentrl.rollouts.episode import episodes_frame, write_episodes
from talentrl.tracking import Run
from tasks.stage import run_stage, tag_parts


def run(params: Params, run: Run) -> None:
    """Measure the arms of train tasks with the teacher; choose, lint and write conversations to train on."""
    runner = open_runner(params, layout.MODEL)
    tasks = TaskSet.read(layout.TASKS).split("train", params.demos.tasks)
    measured = measure_arms(runner, play, tasks, params.seed)
    conversations = choose_conversations(
        runner, play, tasks, measured, params.demos.forced_arms, params.demos.null_share, params.seed
    )
    findings = lint_demonstrations(runner, conversations)
    write_episodes(layout.DEMOS, episodes_frame(conversations))
    write_text(layout.METRICS / "demos.json", json.dumps(findings, indent=1) + "\n")
    run.log({name: value for name, value in findings.items() if isinstance(value, int | float)})
    tag_parts(run, runner, layout.MODEL)


if __name__ == "__main__":
    run_stage("demos", run, {"index": layout.SKILL_INDEX.parent, "tasks": layout.TASKS})
