"""What stops a training run that has gone wrong."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from learning_samples import graded, toy_runner, toy_settings, toy_tasks, weights
from transformers import TrainerCallback

from talentrl.errors import TrainingStopped
from talentrl.learning import callbacks
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


class SpoilGradient(TrainerCallback):
    """Makes the gradient of step 3 NaN, and keeps the weights of before."""

    def __init__(self) -> None:
        self.before: dict[str, torch.Tensor] = {}

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if state.global_step == 2:
            self.before = {name: value.detach().clone() for name, value in model.state_dict().items()}
            model.model.norm.weight.register_hook(lambda gradient: gradient * torch.nan)


def test_a_step_with_a_broken_gradient_is_not_checkpointed(tiny_model: Path, tmp_path: Path) -> None:
    scratch, spoil = tmp_path / "scratch", SpoilGradient()
    with pytest.raises(TrainingStopped, match=r"step 3: grad_norm is nan; .* last good checkpoint is .*checkpoint-2$"):
        train_rl(
            toy_runner(tiny_model, graded),
            toy_tasks(2),
            toy_settings(steps=6, save_steps=1),
            1,
            scratch,
            tmp_path / "out",
            [spoil, StepMetrics(lambda metrics, step: None)],
        )
    checkpoint = newest_checkpoint(scratch)
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-2"
    for name, saved in weights(checkpoint).items():
        assert torch.equal(saved, spoil.before[name])


@pytest.mark.parametrize(
    ("returns", "tasks", "expected"),
    [
        ([], 10, 0),
        ([0.0] * 500, 10, 0),  # never earned anything: nothing is lost
        ([0.4] * 12 + [0.0] * 8, 10, 0),  # 10 tasks × 8 steps × 0.24 are 19 full returns
        ([0.4] * 12 + [0.0] * 9, 10, 9),
        ([0.4] * 12 + [0.0] * 8 + [0.4], 10, 0),  # earns again
        ([1.0] * 9 + [0.0] * 4, 10, 3),
        ([1.0, 0.0], 100, 1),
        ([1.0, 0.0], 30, 0),  # as many steps before as are judged
        ([0.02] * 100 + [0.0] * 100, 10, 0),  # rare returns take longer
        ([0.02] * 200 + [0.0] * 200, 10, 200),
        ([0.4, 0.0, 0.1, 0.7, 0.0, 0.0, 0.3, 0.2] * 20, 10, 0),
    ],
)
def test_returns_that_vanish(returns: list[float], tasks: int, expected: int) -> None:
    assert collapsed(returns, tasks) == expected


def test_noise_is_no_collapse() -> None:
    """Ten tasks a step, each solved with probability 0.1: a thousand steps without an alarm."""
    draw = torch.Generator().manual_seed(0)
    returns = [float((torch.rand(10, generator=draw) < 0.1).float().mean()) for _ in range(1000)]
    assert not any(collapsed(returns[:steps], 10) for steps in range(len(returns)))


def test_a_run_that_earns_nothing_any_more_stops_and_keeps_two_checkpoints(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callbacks, "_EXPECTED", 4.0)
    made: list[int] = []

    def judge(episode: Any) -> float:
        made.append(1)
        return float(len(made) <= 3 * 8)  # three steps of 4 tasks × 2 arms

    settings = toy_settings(steps=9, tasks=4, rollouts=1, save_steps=1)
    message = r"step 5: mean return of the last 2 steps is 0\.000, was 0\.600; .* good checkpoint is .*/checkpoint-2$"
    with pytest.raises(TrainingStopped, match=message):
        train_rl(toy_runner(tiny_model, judge), toy_tasks(4), settings, 1, tmp_path / "scratch", tmp_path / "out")
    # What step 2 left earned 1 in step 3, what step 3 left earned 0 in step 4.
    assert {folder.name for folder in (tmp_path / "scratch").glob("checkpoint-*")} == {"checkpoint-2", "checkpoint-4"}
    assert not (tmp_path / "out").exists()


def test_a_trainer_that_does_not_see_what_was_sampled_stops(tmp_path: Path) -> None:
    state: Any = SimpleNamespace(global_step=1, log_history=[])
    arguments: Any = SimpleNamespace(output_dir=str(tmp_path))
    monitor = CollapseMonitor(10)
    name = "sampling/sampling_logp_difference/mean"
    monitor.on_log(arguments, state, NOTHING, {"loss": 0.0, name: 0.05})
    monitor.on_log(arguments, state, NOTHING, {"loss": 0.0, name: None})
    with pytest.raises(
        TrainingStopped, match=r"step 1: log-prob.* differ by 0\.30 nats a token on average; .* no good"
    ):
        monitor.on_log(arguments, state, NOTHING, {"loss": 0.0, name: 0.3})
