"""A project's servers on this machine: Prefect with its UI and a worker for its flows, and MLflow with its UI.

What they keep lies in the project: Prefect's database and all logs in `.servers/`, MLflow's runs in `mlflow.db` and
`mlartifacts/`, where stages write without a server too. They listen on the loopback address alone.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from talentrl import layout
from talentrl.errors import InputError
from talentrl.files import write_text

HOST = "127.0.0.1"
FOLDER = Path(".servers")
RUNNING = FOLDER / "running.json"
"""Process id of `talentrl up` and the addresses of its servers, while it runs."""
WORK_POOL = "talentrl"
PREFECT_SERVER = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # In memory, the holders of slots are forgotten when the server is killed, and the slots are never free again.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
}
"""Settings of every Prefect server of ours, also of one that a flow starts for itself."""
STARTUP_SECONDS = 300.0  # a busy laptop takes long to import Prefect
STOP_SECONDS = 15.0
_LAST_LINES = 15


class ServerFailed(RuntimeError):
    """A server ended by itself or did not become healthy; the message shows its last lines."""


@dataclass(frozen=True)
class Addresses:
    """Where the servers are."""

    prefect: str
    mlflow: str

    @property
    def health(self) -> dict[str, str]:
        """Where each says how it is."""
        return {"prefect": f"{self.prefect}/api/health", "mlflow": f"{self.mlflow}/health"}

    @property
    def environment(self) -> dict[str, str]:
        """What tells other processes of them."""
        return {"PREFECT_API_URL": f"{self.prefect}/api", "MLFLOW_TRACKING_URI": self.mlflow}


def serve(prefect_port: int, mlflow_port: int, announce: Callable[[str], None]) -> None:
    """Start the servers of the project in the current folder, announce them when they are healthy, and wait.

    On Ctrl-C, SIGTERM, or when one of them ends, all are stopped.

    Raises:
        InputError: a port is taken, or they run already.
        ServerFailed: a server ended by itself, or is not healthy after `STARTUP_SECONDS`.
    """
    if found := running():
        raise InputError(f"the servers run already: Prefect at {found.prefect}, MLflow at {found.mlflow}")
    for option, port in (("--prefect-port", prefect_port), ("--mlflow-port", mlflow_port)):
        _check_free(port, option)
    addresses = Addresses(f"http://{HOST}:{prefect_port}", f"http://{HOST}:{mlflow_port}")
    environment = {
        **os.environ,
        **addresses.environment,
        "PREFECT_HOME": str((FOLDER / "prefect").resolve()),
        **PREFECT_SERVER,
    }
    FOLDER.mkdir(exist_ok=True)
    with _until_interrupted(), _Processes(environment) as processes:
        processes.start("prefect", "prefect", "server", "start", "--host", HOST, "--port", str(prefect_port))
        processes.start(
            "mlflow",
            *("mlflow", "server", "--host", HOST, "--port", str(mlflow_port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{layout.MLFLOW.resolve()}"),
            *("--artifacts-destination", layout.MLFLOW_ARTIFACTS.resolve().as_uri()),
        )
        processes.wait_until_healthy("prefect", addresses.health["prefect"])
        processes.run("setup", "flows.setup")
        processes.start("worker", "prefect", "worker", "start", "--pool", WORK_POOL)
        processes.wait_until_healthy("mlflow", addresses.health["mlflow"])
        write_text(RUNNING, json.dumps({"pid": os.getpid(), **vars(addresses)}) + "\n")
        try:
            announce(f"Prefect  {addresses.prefect}\nMLflow   {addresses.mlflow}")
            for name, value in addresses.environment.items():
                announce(f"export {name}={value}")
            announce("Ctrl-C stops them.")
            processes.watch()
        finally:
            RUNNING.unlink(missing_ok=True)


def running() -> Addresses | None:
    """The servers that `talentrl up` runs in the current folder; None if it does not."""
    with suppress(OSError, ValueError, KeyError):
        values = json.loads(RUNNING.read_text(encoding="utf-8"))
        if psutil.pid_exists(values["pid"]):
            return Addresses(values["prefect"], values["mlflow"])
    return None


def answers(address: str) -> bool:
    """Whether a server there says that it is healthy."""
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(address, timeout=5):
        return True
    return False


def _check_free(port: int, option: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InputError(f"{option}: port {port} is taken ({error.strerror}); name another") from error


@contextmanager
def _until_interrupted() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block quietly, also in a background process, where shells ignore the first."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class _Processes:
    """Child processes by name, each with a log in `FOLDER`; all end when the block does."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the children and their descendants; kill those that do not end."""
        family: list[psutil.Process] = []
        for child in self._children.values():
            with suppress(psutil.NoSuchProcess):
                parent = psutil.Process(child.pid)
                family += [*parent.children(recursive=True), parent]
        for process in family:  # in sessions of their own, the terminal's Ctrl-C did not reach them
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(family, timeout=STOP_SECONDS)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive)

    def start(self, name: str, module: str, *arguments: str) -> None:
        """Run `python -m module arguments` in the background."""
        with (FOLDER / f"{name}.log").open("wb") as log:
            self._children[name] = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, name: str, module: str) -> None:
        """Run `python -m module` to its end."""
        self.start(name, module)
        if self._children.pop(name).wait() != 0:
            raise ServerFailed(_last_lines(name))

    def wait_until_healthy(self, name: str, address: str) -> None:
        """Wait until `address` answers."""
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline:
            self._check()
            if answers(address):
                return
            time.sleep(0.5)
        raise ServerFailed(f"{name} did not answer at {address} within {STARTUP_SECONDS:.0f} s. {_last_lines(name)}")

    def watch(self) -> None:
        """Return never; raise when a child ends."""
        while True:
            self._check()
            time.sleep(1)

    def _check(self) -> None:
        for name, child in self._children.items():
            if child.poll() is not None:
                raise ServerFailed(f"{name} ended with exit code {child.returncode}. {_last_lines(name)}")


def _last_lines(name: str) -> str:
    log = FOLDER / f"{name}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join([f"The last lines of {log}:", *lines])
