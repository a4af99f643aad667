"""Training with LoRA adapters and with activations computed again, through both stages."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from learning_samples import (
    GOOD,
    KillAfter,
    Killed,
    assert_same_weights,
    graded,
    probability,
    toy_runner,
    toy_settings,
    toy_tasks,
    weights,
    without_times,
)

from talentrl.config import ModelSection, SftSection
from talentrl.learning.arms import collect
from talentrl.learning.rl import train_rl
from talentrl.learning.sft import train_sft
from talentrl.rollouts.episode import episodes_frame

ADAPTERS = ModelSection(lora_rank=4)


def demonstrations(model: Path) -> pl.DataFrame:
    return episodes_frame(collect(toy_runner(model, graded), toy_tasks(6), toy_settings(), 0).episodes)


def sft(model: Path, folder: Path, settings: ModelSection, *callbacks: Any) -> Any:
    section = SftSection(epochs=2, batch=8, learning_rate=3e-3, save_steps=2)
    output = folder / "out"
    history = train_sft(model, demonstrations(model), section, 3, folder / "scratch", output, list(callbacks), settings)
    return without_times(history), output


def rl(model: Path, folder: Path, settings: ModelSection, *callbacks: Any) -> Any:
    """Three steps, a penalty towards the model without adapters, and replay."""
    section = toy_settings(steps=3, save_steps=2, kl=0.05, learning_rate=3e-3, replay_epochs=1)
    output = folder / "out"
    history, _ = train_rl(
        toy_runner(model, graded), toy_tasks(6), section, 3, folder / "scratch", output, list(callbacks), settings
    )
    return without_times(history), output


@pytest.mark.parametrize("train", [sft, rl])
def test_adapters_end_as_a_whole_model_also_after_a_kill(tiny_model: Path, tmp_path: Path, train: Any) -> None:
    history, output = train(tiny_model, tmp_path / "whole", ADAPTERS)
    start, end = weights(tiny_model), weights(output)
    assert start.keys() == end.keys()
    moved = {name for name in start if not torch.equal(start[name], end[name])}
    assert moved and all("proj" in name for name in moved)  # linear layers alone
    with pytest.raises(Killed):
        train(tiny_model, tmp_path / "killed", ADAPTERS, KillAfter(3))
    resumed_history, resumed = train(tiny_model, tmp_path / "killed", ADAPTERS)
    assert resumed_history == history
    assert_same_weights(resumed, output)


def test_the_penalty_is_nothing_at_the_first_step_and_something_later(tiny_model: Path, tmp_path: Path) -> None:
    history, _ = rl(tiny_model, tmp_path, ADAPTERS)
    penalties = [entry["kl"] for entry in history if "kl" in entry]
    assert penalties[0] == pytest.approx(0, abs=1e-6)
    assert penalties[-1] > 1e-6


def test_rollouts_are_made_with_the_adapters(tiny_model: Path, tmp_path: Path) -> None:
    """What was trained moves the router that the next step draws from."""
    before = probability(toy_runner(tiny_model))
    runner = toy_runner(tiny_model, lambda episode: float(episode.talent == GOOD))
    settings = toy_settings(steps=4, learning_rate=1e-2)
    train_rl(runner, toy_tasks(4), settings, 0, tmp_path / "s", tmp_path / "out", None, ADAPTERS)
    assert probability(toy_runner(tmp_path / "out")) > before


@pytest.mark.parametrize("lora_rank", [0, 4])
@pytest.mark.parametrize("train", [sft, rl])
def test_activations_computed_again_give_the_same_training(
    tiny_model: Path, tmp_path: Path, train: Any, lora_rank: int
) -> None:
    kept, computed = (
        train(tiny_model, tmp_path / str(again), ModelSection(lora_rank=lora_rank, gradient_checkpointing=again))
        for again in (False, True)
    )
    for name, value in weights(kept[1]).items():
        torch.testing.assert_close(weights(computed[1])[name], value, atol=1e-5, rtol=1e-4)
