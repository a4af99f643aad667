import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from retrieval_samples import HashingEncoder

from talentrl.retrieval import neighbours
from talentrl.retrieval.connection import connect
from talentrl.retrieval.elasticsearch import ElasticsearchIndex
from talentrl.retrieval.embedded import EmbeddedIndex
from talentrl.retrieval.index import Document, HybridIndex
from talentrl.retrieval.scoring import Scoring

Build = Callable[..., HybridIndex]


@pytest.fixture
def encoder() -> HashingEncoder:
    return HashingEncoder()


SERVER = {name: value for name, value in os.environ.items() if name.startswith("ELASTICSEARCH_")}
"""Taken when tests are collected: some of them change the environment."""


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An emulator of the Elasticsearch API, as the environment that names it."""
    program = shutil.which("noida-db", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("no emulator of Elasticsearch: `pip install noida-db`")
    port = free_port()
    folder = tmp_path_factory.mktemp("server")
    command = [program, "start", "--only", "elasticsearch", "--elasticsearch-port", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--data-dir", str(folder / "data")], stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_for(port, process)
        yield {"ELASTICSEARCH_URL": f"http://127.0.0.1:{port}"}
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the command is a wrapper: the server is its child
        process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            pytest.skip(f"the Elasticsearch emulator does not start here (exit code {process.returncode})")
        time.sleep(0.05)
    raise TimeoutError("the Elasticsearch emulator does not answer")


def _environment(lane: str, request: pytest.FixtureRequest) -> dict[str, str]:
    if lane == "emulator":
        return request.getfixturevalue("emulator")
    if "ELASTICSEARCH_URL" not in SERVER:
        pytest.skip("no Elasticsearch server: set ELASTICSEARCH_URL to run the contract against yours")
    return SERVER


@pytest.fixture(scope="session", params=["emulator", "server"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """What names a server that speaks Elasticsearch: an emulator, then the one of ELASTICSEARCH_URL if there is one."""
    return _environment(request.param, request)


@pytest.fixture(scope="session")
def client(environment: dict[str, str]) -> Any:
    return connect(environment)


@pytest.fixture(scope="session", params=["embedded", "graph", "emulator", "server"])
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Build]:
    """Makes an index of the back end under test; every back end must pass the same contract."""
    numbers = itertools.count()
    if request.param in ("embedded", "graph"):
        folder = tmp_path_factory.mktemp(request.param)
        patch = pytest.MonkeyPatch()
        if request.param == "graph":  # more than two documents have a graph of neighbours
            patch.setattr(neighbours, "EXACT", 2)

        def embedded(documents: Sequence[Document], **settings: Any) -> HybridIndex:
            return EmbeddedIndex.build(folder / str(next(numbers)), documents, HashingEncoder(), Scoring(**settings))

        yield embedded
        patch.undo()
        return
    client = connect(_environment(request.param, request))
    prefix = f"contract-{os.getpid()}"

    def elasticsearch(documents: Sequence[Document], **settings: Any) -> HybridIndex:
        alias = f"{prefix}-{next(numbers)}"
        return ElasticsearchIndex.build(client, alias, documents, HashingEncoder(), Scoring(**settings))

    yield elasticsearch
    for name in client.indices.get(index=f"{prefix}-*"):
        client.indices.delete(index=name)
