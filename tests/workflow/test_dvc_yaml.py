"""The pipeline's definition itself: what it names exists, and nothing in it defeats DVC."""

import json
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from talentrl.config import load_params, read_yaml
from talentrl.files import write_text

ROOT = Path(__file__).parents[2]
STAGES: dict[str, Any] = read_yaml(ROOT / "dvc.yaml")["stages"]
PARAMS: dict[str, Any] = load_params(ROOT / "params.yaml").model_dump()


def value(key: str) -> Any:
    found: Any = PARAMS
    for part in key.split("."):
        found = found[part]
    return found


def instances(stage: dict[str, Any]) -> list[dict[str, Any]]:
    axes = {name: value(str(axis)[2:-1]) for name, axis in stage.get("matrix", {}).items()}
    return [dict(zip(axes, choice, strict=True)) for choice in product(*axes.values())]


def paths(stage: dict[str, Any], *keys: str) -> set[str]:
    """The paths under `keys` of the stage, all instances of a matrix written out."""
    entries = [entry for key in keys for entry in stage.get(key, [])]
    names = [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]
    return {filled(name, item) for item in instances(stage) for name in names}


def filled(name: str, item: dict[str, Any]) -> str:
    return re.sub(r"\$\{([\w.]+)\}", lambda m: str(item[m[1][5:]] if m[1].startswith("item.") else value(m[1])), name)


OUTS = {path for stage in STAGES.values() for path in paths(stage, "outs", "metrics", "plots")}


@pytest.mark.parametrize("name", STAGES)
def test_every_dependency_is_a_source_file_or_what_a_stage_makes(name: str) -> None:
    for path in paths(STAGES[name], "deps"):
        made = any(out == path or out.startswith(f"{path}/") for out in OUTS)
        assert made or (ROOT / path).exists(), path


@pytest.mark.parametrize("name", STAGES)
def test_every_param_is_in_params(name: str) -> None:
    for key in STAGES[name].get("params", []):
        value(key)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_runs_its_own_module_and_depends_on_it(name: str) -> None:
    module = f"tasks/{name}.py"
    assert (ROOT / module).is_file()
    assert module in STAGES[name]["deps"]
    (command, *_) = (filled(STAGES[name]["cmd"], item) for item in instances(STAGES[name]))
    assert command.startswith(f"python -m tasks.{name}")
    assert "always_changed" not in STAGES[name]


def test_stages_that_train_or_generate_say_that_they_use_a_gpu() -> None:
    assert {name for name, stage in STAGES.items() if stage.get("meta") == {"gpu": True}} == {
        "demos",
        "sft",
        "rl",
        "evaluate",
    }


def test_the_prior_weight_reruns_only_what_depends_on_it() -> None:
    named = {name for name, stage in STAGES.items() if {"retrieval", "retrieval.prior_weight"} & {*stage["params"]}}
    assert named == {"demos", "rl", "evaluate"}  # and, through their outputs, sft and report


def test_settings_of_the_encoder_rerun_the_index() -> None:
    """An index is bound to its encoder's fingerprint, which holds the prefixes."""
    assert {f"retrieval.{name}" for name in ("encoder", "query_prefix", "passage_prefix")} <= {
        *STAGES["index"]["params"]
    }


def test_dvc_draws_the_training_curves(tmp_path: Path) -> None:
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    steps = {
        "sft-7": [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}],
        "rl-7": [{"step": 1, "return": 0.5}],
        "replay-7": [{"step": 2, "replay/value": 0.75}],
    }
    for name, history in steps.items():
        write_text(tmp_path / "metrics" / "history" / f"{name}.json", json.dumps(history))
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "init", "--no-scm", "-q"], cwd=tmp_path, check=True)
    shown = subprocess.run([*dvc, "plots", "show", "--json"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "fail" not in shown.stderr
    drawn = json.loads(shown.stdout)["data"]
    for name, history in steps.items():
        (plot,) = drawn[f"metrics/history/{name}.json"]
        assert [{**row, "rev": "workspace"} for row in history] == plot["content"]["data"]["values"]
