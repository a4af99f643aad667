"""Slots of the limit `gpu`: who takes them, and that they come back."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.settings import PREFECT_API_URL

from flows.child import StageFailed
from flows.hardware import GPU_LIMIT, LEASE_SECONDS, gpu_slots
from flows.pipeline import pipeline
from talentrl.config import HardwareSection

STAGES = """\
stages:
  plain: {cmd: echo 1 > plain, outs: [plain]}
  train: {cmd: echo 1 > train, deps: [plain], outs: [train], meta: {gpu: true}}
"""


def taken() -> int:
    with get_client(sync_client=True) as client:
        return int(client.read_global_concurrency_limit_by_name(GPU_LIMIT).active_slots)


@pytest.fixture
def limit(prefect_server: None) -> Iterator[None]:
    with get_client(sync_client=True) as client:
        client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=GPU_LIMIT, limit=2))
        try:
            yield
        finally:
            client.delete_global_concurrency_limit_by_name(GPU_LIMIT)


def test_slots_are_held_inside_the_block_and_given_back(limit: None) -> None:
    with gpu_slots(HardwareSection(gpus=0), print):
        assert taken() == 0
    with pytest.raises(ZeroDivisionError), gpu_slots(HardwareSection(gpus=2), print):
        assert taken() == 2
        raise ZeroDivisionError
    assert taken() == 0


def test_more_slots_than_there_are(limit: None) -> None:
    more = gpu_slots(HardwareSection(gpus=3), print)
    with pytest.raises(StageFailed, match="has 2 slots; `prefect gcl update gpu"), more:
        pass


def test_a_missing_limit_stops_the_stage_that_needs_it_and_says_what_creates_it(
    prefect_server: None, project: Path
) -> None:
    (project / "dvc.yaml").write_text(STAGES)
    (project / "params.yaml").write_text("hardware: {gpus: 1}\n")
    state = pipeline(return_state=True)
    assert state.is_failed() and "`python -m flows.setup` creates it" in state.message
    assert (project / "plain").exists() and not (project / "train").exists()


def test_a_stage_that_needs_a_gpu_runs_while_the_flow_holds_it(limit: None, project: Path, monkeypatch) -> None:
    (project / "dvc.yaml").write_text(STAGES.replace("echo 1 > train", "python slots.py > train"))
    (project / "slots.py").write_text(
        "from prefect.client.orchestration import get_client\n"
        "with get_client(sync_client=True) as client:\n"
        "    print(client.read_global_concurrency_limit_by_name('gpu').active_slots)\n"
    )
    (project / "params.yaml").write_text("hardware: {gpus: 2}\n")
    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value())
    pipeline()
    assert (project / "train").read_text().strip() in ("2", "2.0") and taken() == 0


@pytest.mark.slow
def test_a_killed_holder_gives_its_slots_back_after_the_lease(limit: None, tmp_path: Path) -> None:
    script = (
        "import time\nfrom flows.hardware import gpu_slots\nfrom talentrl.config import HardwareSection\n"
        "with gpu_slots(HardwareSection(gpus=2), str):\n    print('held', flush=True)\n    time.sleep(600)\n"
    )
    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value(), "PYTHONPATH": str(Path.cwd())}
    holder = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    assert taken() == 2
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    killed = time.monotonic()
    while taken():
        assert time.monotonic() - killed < 4 * LEASE_SECONDS
        time.sleep(1)
    print(f"free after {time.monotonic() - killed:.0f} s")
