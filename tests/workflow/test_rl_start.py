"""Stage `rl`: the checkpoint that `rl.start` names is what it trains, what it resumes by, and what DVC watches."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import polars as pl
import pytest

import tasks.rl as stage
from talentrl import layout
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, TASK_SCHEMA, TaskSet
from talentrl.config import Params, read_yaml
from talentrl.files import write_text
from talentrl.rollouts.episode import episodes_frame
from talentrl.tracking import Run

RL: dict[str, Any] = read_yaml(Path(__file__).parents[2] / "dvc.yaml")["stages"]["rl"]
WEIGHTS = "model.safetensors"


class Started:
    """What the stage opened and trained."""

    def __init__(self) -> None:
        self.checkpoint = self.scratch = self.output = Path()
        self.tasks: list[str] = []

    def open_runner(self, params: Params, checkpoint: Path) -> Any:
        self.checkpoint = checkpoint
        return SimpleNamespace(bank=SimpleNamespace(digest="1"), encoder="e")

    def train_rl(
        self, runner: Any, tasks: Any, settings: Any, seed: int, scratch: Path, output: Path, *_: Any
    ) -> tuple[list[dict[str, float]], pl.DataFrame]:
        self.tasks, self.scratch, self.output = [task.task_id for task in tasks], scratch, output
        scratch.mkdir(parents=True)
        return [{"step": 1, "loss": 0.5}], episodes_frame([])


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the stage for seed 3 in a project of five training tasks, without a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tasks.rl", "3"])
    write_text(layout.MODEL / WEIGHTS, "pretrained")
    write_text(layout.SFT / "3" / WEIGHTS, "supervised")
    write_text(layout.BANK, "{}")
    rows = [(f"t{i}", "atlas", "train", "?", ["x"], "{}") for i in range(5)]
    passages = pl.DataFrame([("p", "Peru", "Lima is in Peru.")], schema=PASSAGE_SCHEMA, orient="row")
    TaskSet(pl.DataFrame(rows, schema=TASK_SCHEMA, orient="row"), passages).write(layout.TASKS)

    def start(name: str) -> Started:
        started = Started()
        monkeypatch.setattr(stage, "open_runner", started.open_runner)
        monkeypatch.setattr(stage, "train_rl", started.train_rl)
        params = Params.model_validate({"rl": {"start": name}, "demos": {"tasks": 2}, "seeds": [3]})
        stage.run(params, create_autospec(Run, instance=True))
        return started

    return start


@pytest.mark.parametrize(("name", "checkpoint"), [("sft", "data/sft/3"), ("model", "data/model")])
def test_it_begins_with_the_named_checkpoint(start: Any, name: str, checkpoint: str) -> None:
    started = start(name)
    assert started.checkpoint == Path(checkpoint)
    # All else is the same: the output, and the tasks, which are those without a demonstration.
    assert (started.output, started.tasks) == (Path("data/rl/3"), ["t2", "t3", "t4"])
    assert json.loads(Path("metrics/history/rl-3.json").read_text()) == [{"step": 1, "loss": 0.5}]
    assert not started.scratch.exists()


@pytest.mark.parametrize("name", ["sft", "model"])
def test_a_killed_run_resumes_by_the_checkpoint_that_it_began_with(start: Any, name: str) -> None:
    scratch = start(name).scratch
    assert start(name).scratch == scratch
    own, other = (layout.SFT / "3", layout.MODEL) if name == "sft" else (layout.MODEL, layout.SFT / "3")
    write_text(other / WEIGHTS, "changed")
    assert start(name).scratch == scratch, "not what this run began with"
    write_text(own / WEIGHTS, "changed")
    assert start(name).scratch != scratch


def test_the_two_starts_do_not_share_checkpoints(start: Any) -> None:
    write_text(layout.MODEL / WEIGHTS, "supervised")  # even where the weights are the same
    assert start("sft").scratch != start("model").scratch


@pytest.mark.parametrize("name", ["sft", "model"])
def test_dvc_watches_the_checkpoint_and_the_setting(start: Any, name: str) -> None:
    watched = {path.replace("${item.seed}", "3") for path in RL["deps"]}
    assert start(name).checkpoint.as_posix() in watched
    assert "rl" in RL["params"]
