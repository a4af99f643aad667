from pathlib import Path

import pytest
from cli_project import PARAMS, REPOSITORY, write_bank


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory for a test: params, a bank and a profile; nothing trained."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "120")
    Path("params.yaml").write_text(PARAMS)
    write_bank(Path("bank"))
    Path("profiles").mkdir()
    Path("profiles/cpu-full.yaml").write_text("seed: 5\nretrieval:\n  prior_weight: 2.0\n  skills: 4\n")
    return tmp_path
