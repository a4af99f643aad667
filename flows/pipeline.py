"""The pipeline as a Prefect flow: each stale DVC stage, in DVC's order, as one Prefect task.

DVC alone knows what depends on what and what is stale; the flow asks it and runs one stage at a time.
Staleness is asked when a stage's turn comes, since a stage that ran may have made the same bytes as before.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State

from flows.artifacts import Progress, link_to_mlflow
from flows.child import StageFailed, may_end_well, run_dvc
from flows.hardware import gpu_slots
from talentrl.config import load_params
from talentrl.errors import InputError

ALL = "all stages"


class StageResult(NamedTuple):
    """One row of the summary: the final state's name and the wall time in seconds."""

    stage: str
    status: str
    seconds: float


def plan(target: str = ALL) -> list[str]:
    """Stage names in the order of `dvc repro [target]`: `target` (a stage, or a matrix) and all it needs.

    Raises:
        InputError: there is no DVC project here, its `dvc.yaml` is broken, or it has no such stage.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.repo.reproduce import get_active_graph, plan_repro

    try:
        with Repo() as repo:
            stages = list(repo.stage.collect("dvc.yaml" if target == ALL else target))
            return [stage.addressing for stage in plan_repro(get_active_graph(repo.index.graph), stages)]
    except DvcException as error:
        raise InputError(f"DVC cannot plan {target}: {error}") from error


def is_stale(stage: str) -> bool:
    """Whether DVC would run `stage` (a changed command, param, dependency or output)."""
    from dvc.repo import Repo

    # A fresh Repo each time: it caches `dvc.lock`. Waits if another dvc command holds the lock.
    with Repo(_wait_for_lock=True) as repo:
        return bool(repo.status([stage]))


def needs_gpu(stage: str) -> bool:
    """Whether dvc.yaml says so: `meta: {gpu: true}`."""
    from dvc.repo import Repo

    with Repo() as repo:
        return any((found.meta or {}).get("gpu") for found in repo.stage.collect(stage))


@task(task_run_name="{stage}", cache_policy=NO_CACHE, retries=1, retry_condition_fn=may_end_well)
def reproduce(stage: str) -> State[Any]:
    """Run one stage if it is stale: its output goes to the run's log. Ends Completed, Skipped or Failed."""
    if not is_stale(stage):
        get_run_logger().info("Stage %s did not change: skipped", stage)
        return Completed(name="Skipped", message="unchanged since it last ran")
    log, progress = get_run_logger().info, Progress(stage)
    try:
        with gpu_slots(load_params().hardware, log) if needs_gpu(stage) else nullcontext():
            run_stage(stage, log, progress)
    except (StageFailed, InputError) as error:  # as a state: a traceback of this process tells nothing of the stage
        return Failed(data=error, message=str(error))
    progress.done()
    return Completed()


@flow(flow_run_name="{target}")
def pipeline(
    target: str = ALL,
) -> list[StageResult] | State[Any]:
    """Run the stale stages of the whole DAG, or of a target and what it needs, and sum them up.

    Args:
        target: a stage of dvc.yaml, or a matrix of stages.
    """
    stages = plan(target)
    results: list[StageResult] = []
    state: State[Any] = Completed()
    linked = False
    for stage in stages:
        started = time.monotonic()
        state = reproduce(stage, return_state=True)
        results.append(StageResult(stage, state.name or state.type.value, time.monotonic() - started))
        linked = linked or (state.name != "Skipped" and link_to_mlflow())
        if not state.is_completed():
            break
    results += [StageResult(stage, "Not run", 0.0) for stage in stages[len(results) :]]
    markdown = summary(results)
    create_markdown_artifact(markdown, key="pipeline-summary", description="Stages and metrics of this run")
    get_run_logger().info("Pipeline summary:\n%s", markdown)
    return results if state.is_completed() else Failed(data=state.data, message=state.message)


def summary(results: Iterable[StageResult]) -> str:
    """The stages as a Markdown table, and the metrics that `dvc.yaml` declares."""
    lines = ["| stage | status | seconds |", "| --- | --- | ---: |"]
    lines += [f"| {row.stage} | {row.status} | {row.seconds:.1f} |" for row in results]
    command = [sys.executable, "-m", "dvc", "metrics", "show", "--md"]
    shown = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    return "\n".join(lines) + ("\n\n" + shown.stdout.strip() if shown.stdout.strip() else "")


def run_stage(stage: str, log: Callable[[str], None], progress: Callable[[float], None] | None = None) -> None:
    """Run one stage as `run_dvc` does. Raises StageFailed."""
    run_dvc(["repro", "--single-item", stage], f"stage {stage}", log, Path(), None, progress)


def main() -> None:
    """`python -m flows.pipeline [TARGET]`: exit code 2 on bad input, 1 if a stage failed."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.pipeline", description="The stale stages of dvc.yaml, in order."
    )
    parser.add_argument("target", nargs="?", default=ALL, help="a stage of dvc.yaml; all stages if not given")
    target = parser.parse_args().target
    with exit_codes("pipeline"):
        plan(target)  # bad input is refused before a server starts
        pipeline(target)


@contextmanager
def exit_codes(flow_name: str) -> Iterator[None]:
    """What a flow's command line ends with: exit code 2 on bad input, 1 if a stage failed, 143 after a SIGTERM."""
    # Prefect hands a SIGTERM on when the flow has ended; only an orderly exit stops the server that it started.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    except InputError as error:
        print(f"{flow_name}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except StageFailed as error:
        print(f"{flow_name}: {error}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
