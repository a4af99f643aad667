"""Stage `tasks`: build or read the task set and its passages."""

from talentrl import layout
from talentrl.benchmarks.load import load_benchmark
from talentrl.config import Params
from talentrl.tracking import Run
from tasks.stage import run_stage


def run(params: Params, run: Run) -> None:
    """Write the task set that the section `tasks` names."""
    taskset = load_benchmark(params.tasks, params.seed)
    taskset.write(layout.TASKS)
    run.log({"tasks": taskset.tasks.height, "passages": taskset.passages.height})


if __name__ == "__main__":
    run_stage("tasks", run, {})
