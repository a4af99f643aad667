"""A child process of a flow: its output goes to the run's log, its end decides the task's, and no end leaves it behind.

The child stays in this process's group, so that Prefect's cancellation, which signals the group, reaches it.
"""

import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from prefect import runtime
from prefect.states import State

from talentrl.provenance import FLOW_RUN

LAST_LINES = 20  # of a failed child's output, shown in the error
STOP_SECONDS = 10.0  # that a cancelled child gets to end by itself
# DVC outlives the SIGTERM that a cancellation sends to all: the stage ends, DVC sees that and lets go of its locks.
_PATIENT_DVC = """\
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: None)
from dvc.cli import main
sys.exit(main(sys.argv[1:]))
"""
_DVC = [sys.executable, "-c", _PATIENT_DVC, "--wait-for-lock"]
_ASKED_TO_END = {signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
_EXITED = re.compile(r"exited with (-?\d+)")  # of a stage's command, as DVC reports it
_LOCKED = re.compile(r"Unable to acquire lock|is busy, it is being blocked")
_PERCENT = re.compile(rb"[\r ](\d{1,3})%\|")  # of tqdm's bars
_running: "set[subprocess.Popen[bytes]]" = set()


class StageFailed(RuntimeError):
    """A child ended with a non-zero exit code; the message shows its last lines."""


class StageKilled(StageFailed):
    """The child is not to blame: something killed it, as the kernel does when memory ends, or DVC's lock was held."""


def may_end_well(task: Any, run: Any, state: State[Any]) -> bool:
    """Whether a task that failed is tried again: not where its own work failed, which it would do again."""
    return isinstance(state.data, StageKilled)


def run_dvc(arguments: Sequence[str], what: str, log: Callable[[str], None], *more: Any) -> None:
    """Run a DVC command, which waits for its lock; further arguments and errors are those of `run_child`."""
    run_child([*_DVC, *arguments], what, log, *more)


def run_child(
    command: Sequence[str],
    what: str,
    log: Callable[[str], None],
    folder: Path = Path(),
    environment: Mapping[str, str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> None:
    """Run a command and pass its output to `log`, line by line. On any exception here it ends with all its descendants.

    Args:
        command: program and arguments.
        what: runs, for the error message.
        log: takes a line; of a progress bar that redraws itself, what a terminal would show in the end.
        folder: its working directory.
        environment: more variables for the child, beside those of `stage_environment`.
        progress: takes the percentage that a progress bar has reached.

    Raises:
        StageFailed: on a non-zero exit code.
        StageKilled: and a signal was the reason that nobody asked for, or DVC's lock.
    """
    child = subprocess.Popen(
        command,
        cwd=folder,
        env={**stage_environment(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    _running.add(child)
    last: deque[str] = deque(maxlen=LAST_LINES)
    try:
        _pass_on(child, log, last, progress)
        code = child.wait()
    except BaseException:
        stop(child)
        raise
    finally:
        _running.discard(child)
    if code:
        error = StageKilled if _was_killed(code, "\n".join(last)) else StageFailed
        raise error("\n".join([f"{what} failed; its last lines:", *last]))


def _pass_on(
    child: "subprocess.Popen[bytes]",
    log: Callable[[str], None],
    last: "deque[str]",
    progress: Callable[[float], None] | None,
) -> None:
    def tell(raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip().rsplit("\r", 1)[-1]
        if line:
            last.append(line)
            log(line)

    assert child.stdout is not None
    unfinished = b""
    while chunk := os.read(child.stdout.fileno(), 1 << 16):
        if progress is not None and (found := _PERCENT.findall(chunk)):
            progress(float(found[-1]))
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        for raw in lines:
            tell(raw)
        unfinished = unfinished[unfinished.rstrip(b"\r").rfind(b"\r") + 1 :]  # what was drawn over is gone
    tell(unfinished)


def _was_killed(code: int, output: str) -> bool:
    """Whether exit code or output tell of a signal that nobody sent to end the child, or of DVC's lock."""
    codes = [code, *map(int, _EXITED.findall(output))]
    # A shell reports the signal N that ended its command as 128 + N.
    signals = {-code if code < 0 else code - 128 for code in codes if code < 0 or code > 128}
    signals &= {number.value for number in signal.Signals}
    return bool(signals - _ASKED_TO_END or (not signals and _LOCKED.search(output)))


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


def stop(child: "subprocess.Popen[bytes]") -> None:
    """End a child and all its descendants.

    The descendants go first: DVC then sees its stage fail and lets go of its locks by itself.
    """
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):  # it ended meanwhile
        family = psutil.Process(child.pid).children(recursive=True)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    if not family:
        child.terminate()
    # The child itself is waited for by its Popen alone: if psutil took its exit code, a thread that waits for it too
    # would be told 0.
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        family += psutil.Process(child.pid).children(recursive=True)  # those that it started meanwhile
    _, alive = psutil.wait_procs(family, timeout=1)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    child.kill()
    child.wait()


def stop_all() -> None:
    """End every child of this process that still runs, whichever thread waits for it."""
    for child in list(_running):
        stop(child)
