"""A flow's child process, by itself: what reaches the log, and which of its ends are tried again."""

import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from flows.child import StageFailed, StageKilled, run_child, run_dvc, stop_all


def run(script: str, **options) -> list[str]:
    lines: list[str] = []
    run_child([sys.executable, "-c", script], "it", lines.append, **options)
    return lines


def test_lines_and_the_last_state_of_a_bar() -> None:
    assert run("print('1%\\r50%\\r100%\\n\\nend', end='')") == ["100%", "end"]


def test_progress_is_what_tqdm_draws() -> None:
    seen: list[float] = []
    script = "import tqdm\nfor _ in tqdm.tqdm(range(4), mininterval=0, desc='steps'): pass"
    assert run(script, progress=seen.append)[-1].startswith("steps: 100%")
    assert seen == sorted(seen) and seen[-1] == 100


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("import sys; print('mine'); sys.exit(3)", StageFailed),
        ("import os; print('mine', flush=True); os.kill(os.getpid(), 9)", StageKilled),
        ("import os; print('mine', flush=True); os.kill(os.getpid(), 15)", StageFailed),
        ("import sys; print('mine: Unable to acquire lock'); sys.exit(255)", StageKilled),
        ("import sys; print('mine: exited with 137'); sys.exit(255)", StageKilled),
        ("import sys; print('mine: exited with 143, then Unable to acquire lock'); sys.exit(255)", StageFailed),
    ],
)
def test_a_failure_shows_the_last_lines_and_whose_fault_it_was(script: str, kind: type[StageFailed]) -> None:
    with pytest.raises(StageFailed, match=r"(?s)it failed; its last lines:\nmine") as caught:
        run(script)
    assert type(caught.value) is kind


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGKILL, StageKilled), (signal.SIGTERM, StageFailed)])
@pytest.mark.parametrize("command", ["sh -c 'kill -{} $$'", "sh -c 'kill -{} $$'; exit $?"])
def test_dvc_says_what_killed_its_stage(project, number: int, kind: type[StageFailed], command: str) -> None:
    (project / "dvc.yaml").write_text(f'stages:\n  killed:\n    cmd: "{command.format(int(number))}"\n')
    with pytest.raises(StageFailed) as caught:
        run_dvc(["repro", "killed"], "it", print)
    assert type(caught.value) is kind


def test_a_flow_outlives_the_reader_of_its_log() -> None:
    """A worker reads it; rich, which Prefect logs with, ends the process when nobody does."""
    script = (
        "import os, sys, flows\nfrom rich.console import Console\n"
        "reader, writer = os.pipe()\nos.close(reader)\nconsole = Console(file=os.fdopen(writer, 'w'))\n"
        "console.print('1')\nconsole.print('2')\nprint('alive', flush=True)\nos._exit(0)"
    )
    assert run(script) == ["alive"]


def test_a_child_that_another_thread_stops_has_failed() -> None:
    """A sweep's main thread stops the children of its rows' threads: a cancelled row is not a finished one."""
    begun = Event()

    def log(line: str) -> None:
        begun.set()
        time.sleep(0 if line == "begun" else 1)  # the main thread learns first that the child has ended

    script = (
        "import subprocess, sys\n"
        "subprocess.call(['sh', '-c', 'echo begun; exec sleep 60'])\nprint('end', flush=True)\nsys.exit(3)"
    )
    with ThreadPoolExecutor(1) as pool:
        row = pool.submit(run_child, [sys.executable, "-c", script], "it", log)
        assert begun.wait(60)
        stop_all()
        with pytest.raises(StageFailed):
            row.result(60)
