"""The pipeline as a Prefect flow: each stale DVC stage, in DVC's order, as one Prefect task.

DVC alone knows what depends on what and what is stale; the flow asks it and runs one stage at a time.
Staleness is asked when a stage's turn comes, since a stage that ran may have made the same bytes as before.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from prefect import flow, get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State

from talentrl.errors import InputError
from talentrl.provenance import FLOW_RUN

DVC = [sys.executable, "-m", "dvc"]
LAST_LINES = 20  # of a failed stage's output, shown in the error
STOP_SECONDS = 10.0  # that a cancelled stage gets to end by itself


class StageFailed(RuntimeError):
    """DVC ended with a non-zero exit code; the message shows its last lines."""


class StageResult(NamedTuple):
    """One row of the summary: the final state's name and the wall time in seconds."""

    stage: str
    status: str
    seconds: float


def plan(target: str | None = None) -> list[str]:
    """Stage names in the order of `dvc repro [target]`: `target` (a stage, or a matrix) and all it needs.

    Raises:
        InputError: there is no DVC project here, its `dvc.yaml` is broken, or it has no such stage.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.repo.reproduce import get_active_graph, plan_repro

    try:
        with Repo() as repo:
            stages = list(repo.stage.collect(target or "dvc.yaml"))
            return [stage.addressing for stage in plan_repro(get_active_graph(repo.index.graph), stages)]
    except DvcException as error:
        raise InputError(f"DVC cannot plan {target or 'dvc.yaml'}: {error}") from error


def is_stale(stage: str) -> bool:
    """Whether DVC would run `stage` (a changed command, param, dependency or output)."""
    from dvc.repo import Repo

    # A fresh Repo each time: it caches `dvc.lock`. Waits if another dvc command holds the lock.
    with Repo(_wait_for_lock=True) as repo:
        return bool(repo.status([stage]))


@task(task_run_name="{stage}", cache_policy=NO_CACHE)
def reproduce(stage: str) -> State[Any]:
    """Run one stage if it is stale: its output goes to the run's log. Ends Completed, Skipped or Failed."""
    if not is_stale(stage):
        get_run_logger().info("Stage %s did not change: skipped", stage)
        return Completed(name="Skipped", message="unchanged since it last ran")
    try:
        run_stage(stage, get_run_logger().info)
    except StageFailed as error:  # as a state: a traceback of this process would tell nothing of the stage
        return Failed(data=error, message=str(error))
    return Completed()


@flow
def pipeline(target: str | None = None) -> list[StageResult] | State[Any]:
    """Run the stale stages of the whole DAG, or of `target` and what it needs, and sum them up."""
    stages = plan(target)
    results: list[StageResult] = []
    state: State[Any] = Completed()
    for stage in stages:
        started = time.monotonic()
        state = reproduce(stage, return_state=True)
        results.append(StageResult(stage, state.name or state.type.value, time.monotonic() - started))
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
    shown = subprocess.run([*DVC, "metrics", "show", "--md"], capture_output=True, text=True, encoding="utf-8")
    return "\n".join(lines) + ("\n\n" + shown.stdout.strip() if shown.stdout.strip() else "")


def run_stage(stage: str, log: Callable[[str], None]) -> None:
    """Run one stage as `run_dvc` does. Raises StageFailed."""
    run_dvc(["repro", "--single-item", stage], f"stage {stage}", log)


def run_dvc(
    arguments: Sequence[str],
    what: str,
    log: Callable[[str], None],
    folder: Path = Path(),
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a DVC command in a child process and pass its output to `log`, line by line.

    The child stays in this process's group, so that Prefect's cancellation, which signals the group, reaches
    it. On any exception here it is ended with all its descendants.

    Args:
        arguments: those of `dvc`, which waits for its lock.
        what: runs, for the error message.
        log: takes a line.
        folder: the DVC project.
        environment: more variables for the child, beside those of `stage_environment`.

    Raises:
        StageFailed: on a non-zero exit code.
    """
    child = subprocess.Popen(
        [*DVC, "--wait-for-lock", *arguments],
        cwd=folder,
        env={**stage_environment(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    last: deque[str] = deque(maxlen=LAST_LINES)
    try:
        assert child.stdout is not None
        for raw in child.stdout:
            # Of a progress bar that redraws itself, what a terminal would show in the end.
            line = raw.decode("utf-8", "replace").rstrip().rsplit("\r", 1)[-1]
            if line:
                last.append(line)
                log(line)
        failed = child.wait() != 0
    except BaseException:
        stop(child)
        raise
    if failed:
        raise StageFailed("\n".join([f"{what} failed; its last lines:", *last]))


def stage_environment() -> dict[str, str]:
    """The environment of a stage's process: this one's, with the flow run that tracking groups stages by."""
    # MLFLOW_RUN_ID would make every stage write into that one run.
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_RUN_ID"}
    # `python` in dvc.yaml means the Python of this flow, also where its environment is not activated.
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    environment["PYTHONUNBUFFERED"] = "1"
    if flow_run := runtime.flow_run.id:
        environment[FLOW_RUN] = str(flow_run)
    return environment


def stop(dvc: "subprocess.Popen[bytes]") -> None:
    """End a `dvc repro` and all its descendants.

    The stage's processes go first: DVC then sees its stage fail and lets go of its locks by itself.
    """
    try:
        parent = psutil.Process(dvc.pid)
        family = [*parent.children(recursive=True), parent]
        for process in family[:-1] or family:
            process.terminate()
    except psutil.NoSuchProcess:  # it ended meanwhile
        pass
    else:
        _, alive = psutil.wait_procs(family, timeout=STOP_SECONDS)
        for process in alive:
            process.kill()
    dvc.wait()


def main() -> None:
    """`python -m flows.pipeline [TARGET]`: exit code 2 on bad input, 1 if a stage failed."""
    parser = argparse.ArgumentParser(prog="python -m flows.pipeline", description=pipeline.description)
    parser.add_argument("target", nargs="?", help="a stage of dvc.yaml; all stages if not given")
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
