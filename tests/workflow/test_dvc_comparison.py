"""`dvc metrics diff`, `dvc plots diff` and `dvc exp show` on this repository's own dvc.yaml and params.yaml."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dvc_project import GIT_IDENTITY
from test_dvc_yaml import OUTS, ROOT, STAGES, paths

from talentrl.files import write_text

pytestmark = pytest.mark.slow
STAND_IN = "import sys\nfrom stand_ins import run\nrun({stage!r}, *sys.argv[1:])\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user has: the pipeline ran and was committed, then ran with more RL steps as a DVC experiment."""
    folder = tmp_path_factory.mktemp("compared")
    for name in ("dvc.yaml", ".gitignore", ".dvcignore"):
        shutil.copy(ROOT / name, folder)
    text = (ROOT / "params.yaml").read_text()
    for key, value in (("systems", "[flat, sft, rl]"), ("steps", "8")):
        text, found = re.subn(rf"^  {key}: .*$", f"  {key}: {value}", text, flags=re.MULTILINE)
        assert found == 1
    write_text(folder / "params.yaml", text)
    for stage, definition in STAGES.items():
        for path in paths(definition, "deps"):
            if path not in OUTS and not any(out.startswith(f"{path}/") for out in OUTS):
                write_text(folder / path / "some" if (ROOT / path).is_dir() else folder / path, "code")
        write_text(folder / "tasks" / f"{stage}.py", STAND_IN.format(stage=stage))
    write_text(folder / "tasks" / "__init__.py", "")
    run(folder, "git", "init", "-q")
    dvc(folder, "init", "-q")
    dvc(folder, "repro")
    run(folder, "git", "add", ".")
    run(folder, "git", "commit", "-qm", "eight steps")
    dvc(folder, "exp", "run", "--name", "more", "--set-param", "rl.steps=16")
    return folder


def run(folder: Path, *command: str) -> str:
    environment = {
        **os.environ,
        **GIT_IDENTITY,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DVC_NO_ANALYTICS": "1",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dvc(folder: Path, *arguments: str) -> str:
    return run(folder, sys.executable, "-m", "dvc", *arguments)


def test_metrics_diff_tells_systems_and_their_paired_differences(project: Path) -> None:
    found: dict[str, Any] = json.loads(dvc(project, "metrics", "diff", "--json"))
    assert found["metrics/evaluation/rl-7.json"] == {"return": {"old": 0.4, "new": 0.8, "diff": 0.4}}
    changed = found["metrics/summary.json"]
    assert changed["systems.rl.return"]["diff"] == 0.4
    assert changed["differences.return.rl-sft.difference"] == {"old": 0.2, "new": 0.6, "diff": pytest.approx(0.4)}
    assert changed["differences.return.rl-sft.low"]["new"] > changed["differences.return.rl-sft.low"]["old"]
    assert not [name for name in changed if name.startswith(("systems.flat", "systems.sft"))], "these did not change"
    table = dvc(project, "metrics", "diff", "HEAD", "--targets", "metrics/summary.json")
    assert re.search(r"systems\.rl\.return +0\.4 +0\.8 +0\.4", table)


def test_plots_diff_draws_both_curves_in_one_plot(project: Path) -> None:
    found = json.loads(dvc(project, "plots", "diff", "HEAD", "--json"))
    assert {*found["data"]} == {f"metrics/history/{name}-7.json" for name in ("sft", "rl", "replay")}
    [plot] = found["data"]["metrics/history/rl-7.json"]
    steps: dict[str, list[int]] = {}
    for row in plot["content"]["data"]["values"]:
        steps.setdefault(row["rev"], []).append(row["step"])
    assert steps == {"HEAD": [*range(1, 9)], "workspace": [*range(1, 17)]}
    page = dvc(project, "plots", "diff", "HEAD").strip().removeprefix("file://")
    assert "Return in training" in Path(page).read_text()
    assert "dvc_plots" not in run(project, "git", "status", "--short")


def test_exp_show_has_a_row_an_experiment_and_what_differs_in_columns(project: Path) -> None:
    table = dvc(project, "exp", "show", "--only-changed", "--csv")
    rows = {row["Experiment"] or row["rev"]: row for row in csv.DictReader(table.splitlines())}
    shown = {
        name: (row["rl.steps"], row["systems.rl.return"], row["differences.return.rl-sft.low"])
        for name, row in rows.items()
    }
    assert shown == {"workspace": ("16", "0.8", "0.4"), "master": ("8", "0.4", "0.05"), "more": ("16", "0.8", "0.4")}
    assert "systems.flat.return" not in rows["more"]


def test_an_experiment_puts_settings_and_figures_into_git_and_no_data(project: Path) -> None:
    ref = run(project, "git", "for-each-ref", "--format=%(refname)", "refs/exps/*/*/more").strip()
    changed = run(project, "git", "diff", "--name-only", "HEAD", ref).split()
    figures = ["evaluation/rl-7", "history/replay-7", "history/rl-7", "summary"]
    assert changed == ["dvc.lock", *[f"metrics/{name}.json" for name in figures], "params.yaml"]
    assert not run(project, "git", "ls-tree", "-r", "--name-only", ref, "data", "reports")
