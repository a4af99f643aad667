"""What kills and cancellations leave: real servers, a real worker, and a stage that holds a GPU's slot.

Runs are started and cancelled through the API that Prefect's UI uses.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from dvc_project import GIT_IDENTITY
from ports import free_port

import flows
from flows.hardware import GPU_LIMIT
from talentrl.servers import HOST, WORK_POOL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
REPOSITORY = Path(__file__).parents[2]
SECONDS = 300

# Leaves a line each time it starts, and goes on once it is not held; with what the sweep's table reads.
TRAIN = """\
import os, time
from pathlib import Path
import polars as pl
from talentrl import layout
from talentrl.config import load_params
from talentrl.learning.history import write_history
from talentrl.rollouts.episode import Episode, episodes_frame, write_episodes

steps, marks = load_params().rl.steps, Path(os.environ["MARKS"])
with (marks / "started").open("a") as file:
    file.write(f"{steps} {os.getpid()}\\n")
while (marks / f"hold-{steps}").exists():
    time.sleep(0.1)
if (marks / "fail").exists():
    raise SystemExit("no luck")
ids = ("t/0", "t", "atlas", "test", "Question?", ["x"], "forced:0")
frame = episodes_frame([Episode(*ids, "forced", "talent", 0, 0, "m", "b", "e", value=1.0)])
write_episodes(layout.EVALUATION / "rl-1.parquet", frame)
write_episodes(layout.RL_EPISODES / "1.parquet", frame.with_columns(step=pl.lit(0)))
write_history(Path("metrics/history/rl-1.json"), [{"step": 1, "step_time": 1.0}])
"""
FILES = {
    "train.py": TRAIN,
    "dvc.yaml": """\
stages:
  train:
    cmd: python train.py
    deps: [train.py, words.txt]
    params: [rl.steps]
    outs: [data/evaluation, data/rl_episodes, metrics/history]
    meta: {gpu: true}
""",
    "params.yaml": "rl: {steps: 5}\nhardware: {gpus: 1}\n",
    "words.txt": "",
    ".gitignore": "/data/\n/metrics/\n/sweep_runs/\n/flows/\n/.prefect/\n*.db\n*.log\n",
    "sweeps/try.yaml": """\
target: train
reference: one
shared: {seeds: [1], evaluate: {systems: [rl]}}
rows: {one: {rl: {steps: 1}}, two: {rl: {steps: 2}}}
""",
}


def wait_for(condition: Callable[[], Any], what: str, seconds: float = SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.3)
    return found


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def kill(pid: int) -> None:
    """SIGKILL to the process alone."""
    psutil.Process(pid).kill()


class Site:
    """A project with its server and worker."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.marks = folder, folder.with_name("marks")
        self.marks.mkdir()
        self.port = free_port()
        self.api = f"http://{HOST}:{self.port}/api"
        self.environment = {
            **os.environ,
            **flows.ENVIRONMENT,
            **GIT_IDENTITY,
            "PREFECT_API_URL": self.api,
            "PREFECT_HOME": str(folder / ".prefect"),
            "PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)]),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MARKS": str(self.marks),
        }
        for name in ("MLFLOW_TRACKING_URI", "PREFECT_SERVER_DATABASE_CONNECTION_URL"):
            self.environment.pop(name, None)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def module(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, **options)

    def start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = self.module("prefect", *arguments, stdout=log, stderr=log, start_new_session=True)

    def start_server(self) -> None:
        self.start("server", "server", "start", "--host", HOST, "--port", str(self.port))

        def healthy() -> bool:
            try:
                return httpx.get(f"{self.api}/health", timeout=5).is_success
            except httpx.HTTPError:
                return False

        wait_for(healthy, "the server")

    def start_worker(self) -> None:
        self.start("worker", "worker", "start", "--pool", WORK_POOL)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = httpx.post(f"{self.api}/{path}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def run(self, deployment: str, **parameters: Any) -> str:
        """Start a run; its id."""
        (found,) = [one for one in self.post("deployments/filter", {}) if one["name"] == deployment]
        return self.post(f"deployments/{found['id']}/create_flow_run", {"parameters": parameters})["id"]

    def cancel(self, run: str) -> None:
        self.post(f"flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})

    def wait_until(self, run: str, *types: str) -> dict[str, Any]:
        """Its state, when it is final: one of `types`."""

        def final() -> dict[str, Any] | None:
            try:
                state = httpx.get(f"{self.api}/flow_runs/{run}", timeout=60).json()["state"]
            except httpx.HTTPError:
                return None
            return state if state["type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED") else None

        state = wait_for(final, f"the end of run {run}")
        assert state["type"] in types, state
        return state

    def slots(self) -> float:
        """How many slots of the limit are taken."""
        (limit,) = [one for one in self.post("v2/concurrency_limits/filter", {}) if one["name"] == GPU_LIMIT]
        return limit["active_slots"]

    def started(self) -> list[tuple[str, int]]:
        """The setting and the process id of each stage that was started."""
        path = self.marks / "started"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(steps, int(pid)) for steps, pid in map(str.split, lines)]

    def wait_for_start(self, steps: str, count: int = 1) -> int:
        """The process id of the stage's `count`-th start."""

        def pids() -> list[int]:
            return [pid for found, pid in self.started() if found == steps]

        return wait_for(lambda: len(pids()) >= count and pids(), f"start {count} of the stage")[count - 1]

    def hold(self, steps: str) -> None:
        (self.marks / f"hold-{steps}").touch()

    def release(self) -> None:
        for path in self.marks.glob("hold-*"):
            path.unlink()

    def assert_nothing_is_left(self, workspace: Path, family: list[psutil.Process]) -> None:
        """No child lives, DVC is not locked, no slot is held."""
        _, alive = psutil.wait_procs(family, timeout=30)
        assert not alive
        wait_for(lambda: self.slots() == 0, "the slot", 15)
        rwlock = workspace / ".dvc/tmp/rwlock"
        assert not rwlock.exists() or not any(json.loads(rwlock.read_text()).values())
        subprocess.run([sys.executable, "-m", "dvc", "status"], cwd=workspace, check=True, capture_output=True)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("faults") / "project"
    shutil.copytree(REPOSITORY / "flows", folder / "flows")
    shutil.copy(REPOSITORY / "prefect.yaml", folder)
    site = Site(folder)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    try:
        for command in ("git init -q", "dvc init -q", "git add .", "git commit -qm start"):
            subprocess.run(command, shell=True, cwd=folder, env=site.environment, check=True)
        site.start_server()
        assert site.module("flows.setup").wait(SECONDS) == 0
        site.start_worker()
        yield site
    finally:
        site.release()
        for process in reversed(site.processes.values()):
            for one in [*descendants(process.pid), psutil.Process(process.pid)] if process.poll() is None else ():
                one.terminate()
            process.wait(60)


@pytest.fixture
def site(servers: Site, tmp_path: Path) -> Iterator[Site]:
    """The project, with a stage that is stale and held."""
    (servers.marks / "started").unlink(missing_ok=True)
    (servers.folder / "words.txt").write_text(str(tmp_path))
    servers.hold("5")
    yield servers
    servers.release()
    (servers.marks / "fail").unlink(missing_ok=True)


def test_cancelling_leaves_no_process_no_lock_and_no_slot(site: Site) -> None:
    run = site.run("pipeline")
    stage = site.wait_for_start("5")
    assert site.slots() == 1
    family = descendants(site.processes["worker"].pid)
    assert stage in [process.pid for process in family]
    site.cancel(run)
    site.wait_until(run, "CANCELLED")
    site.assert_nothing_is_left(site.folder, family)
    assert len(site.started()) == 1, "a cancelled stage is not tried again"


def test_a_killed_stage_is_run_again_once(site: Site) -> None:
    run = site.run("pipeline")
    os.kill(site.wait_for_start("5"), signal.SIGKILL)
    os.kill(site.wait_for_start("5", 2), signal.SIGKILL)
    state = site.wait_until(run, "FAILED")
    assert "stage train failed" in state["message"] and len(site.started()) == 2
    assert site.slots() == 0

    again = site.run("pipeline")
    os.kill(site.wait_for_start("5", 3), signal.SIGKILL)
    site.wait_for_start("5", 4)
    site.release()
    site.wait_until(again, "COMPLETED")


def test_a_failed_stage_is_not_run_again(site: Site) -> None:
    (site.marks / "fail").touch()
    site.release()
    state = site.wait_until(site.run("pipeline"), "FAILED")
    assert "no luck" in state["message"] and len(site.started()) == 1
    assert site.slots() == 0


def test_a_run_outlives_its_worker(site: Site) -> None:
    run = site.run("pipeline")
    stage = site.wait_for_start("5")
    kill(site.processes["worker"].pid)
    site.processes["worker"].wait()
    assert psutil.pid_exists(stage) and site.slots() == 1
    site.release()
    site.wait_until(run, "COMPLETED")
    wait_for(lambda: site.slots() == 0, "the slot", 15)

    site.start_worker()
    site.wait_until(site.run("pipeline"), "COMPLETED")
    assert len(site.started()) == 1, "nothing was stale"


def test_a_run_outlives_a_restart_of_the_server(site: Site) -> None:
    run = site.run("pipeline")
    site.wait_for_start("5")
    server = site.processes["server"]
    for pid in [*(process.pid for process in descendants(server.pid)), server.pid]:
        kill(pid)
    server.wait()
    time.sleep(5)
    site.start_server()
    site.release()
    site.wait_until(run, "COMPLETED")
    wait_for(lambda: site.slots() == 0, "the slot", 180)  # at the latest when its lease ends
    assert len(site.started()) == 1
    site.wait_until(site.run("pipeline"), "COMPLETED")


def test_a_cancelled_sweep_leaves_nothing_and_goes_on_where_it_was(site: Site) -> None:
    site.hold("2")
    run = site.run("sweep", path="sweeps/try.yaml", workers=2)
    site.wait_for_start("2")
    family = descendants(site.processes["worker"].pid)
    site.cancel(run)
    site.wait_until(run, "CANCELLED")
    runs = site.folder / "sweep_runs/try"
    site.assert_nothing_is_left(runs / "two", family)
    assert (runs / "one/row.json").exists() and not (runs / "two/row.json").exists()

    site.release()
    site.wait_until(site.run("sweep", path="sweeps/try.yaml", workers=2), "COMPLETED")
    assert [steps for steps, _ in site.started()] == ["1", "2", "2"]
    assert (runs / "two/row.json").exists()
