"""MLflow and Prefect on a real PostgreSQL, started for this module on a temporary folder."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from mlflow import MlflowClient
from run_samples import train
from test_servers import free_port

from talentrl.tracking import registry
from talentrl.tracking.replay import journals

psycopg = pytest.importorskip("psycopg", reason="needs the extra `postgres`")
pytestmark = pytest.mark.slow
SECONDS = 300
SECRET = "very-secret"


@dataclass(frozen=True)
class Postgres:
    port: int

    def url(self, database: str, driver: str = "") -> str:
        return f"postgresql{driver}://talentrl:{SECRET}@127.0.0.1:{self.port}/{database}"

    def ask(self, database: str, query: str) -> list[tuple]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs; Debian keeps them off the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    programs = binaries()
    if programs is None:
        pytest.skip("needs PostgreSQL (Debian: apt install postgresql)")
    # PostgreSQL refuses to run as root, and another user cannot reach pytest's folders.
    user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="talentrl-postgres-"))
    folder.chmod(0o755)
    (folder / "password").write_text(SECRET)
    data = folder / "data"
    data.mkdir(mode=0o700)
    if user:
        shutil.chown(data, *user.values())
    port = free_port()
    try:
        initdb = [programs / "initdb", "-D", data, "-U", "talentrl", "-A", "scram-sha-256", "-E", "UTF8"]
        subprocess.run(
            [*initdb, f"--pwfile={folder / 'password'}"], check=True, capture_output=True, cwd=folder, **user
        )
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", data],
            cwd=folder,
            stderr=subprocess.DEVNULL,
            **user,
        )
        try:
            found = Postgres(port)
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    for database in ("runs", "flows"):
                        found.ask("postgres", f"CREATE DATABASE {database}")
                    break
                except psycopg.OperationalError:
                    assert server.poll() is None and time.monotonic() < deadline
                    time.sleep(0.2)
            yield found
        finally:
            server.send_signal(signal.SIGINT)  # SIGTERM would wait for every client, and pools keep connections
            server.wait(SECONDS)
    finally:
        shutil.rmtree(folder)


@contextmanager
def serving(log: Path, health: str, *command: str, **environment: str) -> Iterator[None]:
    """Run a server until the end of the block; its output goes to `log`."""
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", *command], env=os.environ | environment, stdout=file, stderr=file
        )
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                with urlopen(health, timeout=5):
                    break
            except OSError:
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.5)
        yield
    finally:
        server.terminate()
        server.wait(SECONDS)


STAGE = """\
import sys
from talentrl.tracking import track
with track(sys.argv[1], {}, {}) as run:
    run.log({"value": float(sys.argv[2])})
"""


def test_six_processes_on_a_fresh_database(project: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "stage.py").write_text(STAGE)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", postgres.url("runs"))
    monkeypatch.setenv("TALENTRL_FLOW_RUN_ID", "flow-6")
    command = [sys.executable, "stage.py"]
    workers = [
        subprocess.Popen([*command, f"s{i}", str(i)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for i in range(6)
    ]
    outputs = [worker.communicate(timeout=SECONDS)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 6
    assert not any("tracking failed" in output or SECRET in output for output in outputs), outputs
    assert journals() == []
    found = MlflowClient(tracking_uri=postgres.url("runs")).search_runs(["1"])
    values = {run.info.run_name: run.data.metrics for run in found}
    assert values == {"pipeline": {}, **{f"s{i}": {"value": i} for i in range(6)}}
    assert {run.info.status for run in found} == {"FINISHED"}
    assert not postgres.ask("runs", f"SELECT * FROM tags WHERE value LIKE '%{SECRET}%'")


def test_the_registry_and_an_mlflow_server_on_it(
    project: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that writes to the database itself, then one through a server, whose address holds no password."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", postgres.url("runs"))
    train("first")
    address = f"http://127.0.0.1:{(port := free_port())}"
    options = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--artifacts-destination", "artifacts"]
    store = {"MLFLOW_BACKEND_STORE_URI": postgres.url("runs")}  # in the environment: `ps` shows a command line to all
    with serving(project / "mlflow.log", f"{address}/health", "mlflow", "server", *options, **store):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        train("second")
        client = MlflowClient(tracking_uri=address)
        found = {one.version: one.tags["dvc.md5"] for one in client.search_model_versions(f"name = '{registry.MODEL}'")}
        assert len(set(found.values())) == 2 and registry.version_at(client, registry.CANDIDATE).version == max(found)
    assert journals() == []
    assert SECRET not in (project / "mlflow.log").read_text()


def test_a_flow_on_a_prefect_server_on_it(project: Path, postgres: Postgres) -> None:
    address = f"http://127.0.0.1:{(port := free_port())}"
    server = {
        "PREFECT_API_DATABASE_CONNECTION_URL": postgres.url("flows", "+asyncpg"),
        "PREFECT_HOME": str(project / "prefect"),
    }
    command = ["prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with serving(project / "prefect.log", f"{address}/api/health", *command, **server):
        done = subprocess.run(
            [sys.executable, "-m", "flows.pipeline"],
            env=os.environ | {"PREFECT_API_URL": f"{address}/api", "PREFECT_HOME": str(project / "prefect")},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
    assert postgres.ask("flows", "SELECT state_type, count(*) FROM flow_run GROUP BY state_type") == [("COMPLETED", 1)]
    assert postgres.ask("flows", "SELECT name FROM task_run ORDER BY name") == [("count",), ("report",), ("split",)]
    assert SECRET not in (project / "prefect.log").read_text() + done.stdout + done.stderr
