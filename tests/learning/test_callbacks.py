"""What stops a training run that has gone wrong."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from learning_samples import graded, toy_runner, toy_settings, toy_tasks
from transformers import TrainerCallback

from talentrl.errors import TrainingStopped
from talentrl.learning.callbacks import CollapseMonitor, StepMetrics, collapsed
from talentrl.learning.resuming import newest_checkpoint
from talentrl.learning.rl import train_rl

STATE: Any = SimpleNamespace(global_step=7)
NOTHING: Any = None
ARGUMENTS: Any = SimpleNamespace(output_dir="none")


def test_numbers_of_a_step_are_passed_on() -> None:
    seen: list[tuple[dict[str, float], int]] = []
    callback = StepMetrics(lambda metrics, step: seen.append((metrics, step)))
    callback.on_log(NOTHING, STATE, NOTHING, {"loss": 1, "kl": 0.5, "missing": None, "name": "x"})
    callback.on_log(NOTHING, STATE, NOTHING, None)
    assert seen == [({"loss": 1.0, "kl": 0.5}, 7), ({}, 7)]


@pytest.mark.parametrize("name", ["loss", "grad_norm", "replay/loss"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_or_gradient_that_is_no_number_stops_the_run(name: str, value: float) -> None:
    seen: list[int] = []
    callback = StepMetrics(lambda metrics, step: seen.append(step))
    with pytest.raises(TrainingStopped, match=f"step 7: {name} is {value}; training stopped, there is no good check"):
        callback.on_log(ARGUMENTS, STATE, NOTHING, {"loss": 0.0, name: value})
    assert seen == [7]  # recorded, then stopped


class Spoil(TrainerCallback):
    """Makes the weights NaN after step 3."""

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if state.global_step == 3:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.fill_(torch.nan)


def test_a_run_that_breaks_down_stops_and_keeps_its_last_good_checkpoint(tiny_model: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    with pytest.raises(TrainingStopped, match="weights are broken"):
        train_rl(
            toy_runner(tiny_model, graded),
            toy_tasks(2),
            toy_settings(steps=6, save_steps=2),
            1,
            tmp_path / "scratch",
            tmp_path / "out",
            [Spoil(), StepMetrics(lambda metrics, step: steps.append(step))],
        )
    assert steps == [1, 2, 3]  # found before the fourth step's rollouts
    checkpoint = newest_checkpoint(tmp_path / "scratch")
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-2"
    assert not (tmp_path / "out").exists()
