"""`talentrl up` with the real servers, on free ports, in a project of its own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from ports import free_port

from talentrl import servers

REPOSITORY = Path(__file__).parents[2]
SECONDS = 300


def up(project: Path, *ports: int) -> subprocess.Popen[str]:
    options = [f"--prefect-port={ports[0]}", f"--mlflow-port={ports[1]}"]
    return subprocess.Popen(
        [sys.executable, "-c", "from talentrl.cli import main; main()", "up", *options],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(project), str(REPOSITORY)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def post(address: str) -> list[dict]:
    request = urllib.request.Request(address, b"{}", {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("servers")
    shutil.copytree(REPOSITORY / "flows", folder / "flows")
    shutil.copy(REPOSITORY / "prefect.yaml", folder)
    return folder


@pytest.fixture(scope="module")
def started(project: Path) -> Iterator[tuple[subprocess.Popen[str], servers.Addresses]]:
    process = up(project, free_port(), free_port())
    deadline = time.monotonic() + SECONDS
    while not (project / servers.RUNNING).is_file() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    try:
        values = json.loads((project / servers.RUNNING).read_text())
        yield process, servers.Addresses(values["prefect"], values["mlflow"])
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)


def test_servers_answer_and_know_the_project(started: tuple[subprocess.Popen[str], servers.Addresses]) -> None:
    _, addresses = started
    api = addresses.environment["PREFECT_API_URL"]
    deployments = {one["name"]: one for one in post(f"{api}/deployments/filter")}
    assert set(deployments) == {"pipeline", "sweep", "evaluate"}
    for deployment in deployments.values():
        assert deployment["work_pool_name"] == servers.WORK_POOL
        assert [schedule["active"] for schedule in deployment["schedules"]] == [False]
    limits = {one["name"]: one["limit"] for one in post(f"{api}/v2/concurrency_limits/filter")}
    assert limits["gpu"] == 1
    with urllib.request.urlopen(f"{addresses.mlflow}/health", timeout=30) as answer:
        assert answer.status == 200


def test_a_second_up_is_refused(project: Path, started: tuple[subprocess.Popen[str], servers.Addresses]) -> None:
    second = up(project, free_port(), free_port())
    output, _ = second.communicate(timeout=SECONDS)
    assert second.returncode == 2
    assert output.startswith("Error: the servers run already: Prefect at http://127.0.0.1:")


@pytest.mark.parametrize("taken", [0, 1])
def test_a_taken_port_is_named(tmp_path: Path, taken: int) -> None:
    with socket.socket() as holder:
        holder.bind((servers.HOST, 0))
        holder.listen()
        ports = [free_port(), free_port()]
        ports[taken] = holder.getsockname()[1]
        process = up(tmp_path, *ports)
        output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    option = ("--prefect-port", "--mlflow-port")[taken]
    assert output.startswith(f"Error: {option}: port {ports[taken]} is taken")


def test_ctrl_c_stops_them_all(project: Path, started: tuple[subprocess.Popen[str], servers.Addresses]) -> None:
    process, _ = started
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 3
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, output
    assert not [child for child in family if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not (project / servers.RUNNING).exists()
