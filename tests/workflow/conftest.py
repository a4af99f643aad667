"""A git and DVC project of three trivial stages, its MLflow store, and a Prefect server for the session."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dvc_project import DVC_YAML, GIT_IDENTITY, dvc
from mlflow import MlflowClient
from prefect.testing.utilities import prefect_test_harness

import flows  # noqa: F401  (sets Prefect's environment before Prefect is imported)

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(tmp_path_factory.mktemp("prefect")))  # away from the files of other servers
        with prefect_test_harness(server_startup_timeout=300):
            yield


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as it is committed, made once and copied for each test."""
    folder = tmp_path_factory.mktemp("committed")
    (folder / "words.txt").write_text("one two three\n")
    (folder / "dvc.yaml").write_text(DVC_YAML)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        subprocess.run(["git", "init", "-q"], check=True)
        dvc("init", "-q")
        subprocess.run(["git", "add", "."], check=True)
        subprocess.run(["git", "commit", "-qm", "start"], env={**os.environ, **GIT_IDENTITY}, check=True)
    return folder


@pytest.fixture
def project(tmp_path: Path, committed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory for a test: the project, with this repository importable by its stages."""
    shutil.copytree(committed, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_NAME", "TALENTRL_PARENT_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in GIT_IDENTITY.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture(scope="session")
def initialised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def store(project: Path, initialised: Path) -> MlflowClient:
    """The project's store, already initialised, which would take a second in every test."""
    shutil.copy(initialised, project / "mlflow.db")
    return MlflowClient(tracking_uri=f"sqlite:///{project / 'mlflow.db'}")
