"""Killed and started again, training ends bit for bit where an uninterrupted run does."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from learning_samples import (
    KillAfter,
    Killed,
    assert_same_weights,
    graded,
    toy_runner,
    toy_settings,
    toy_tasks,
    untimed,
    weights,
    without_times,
)
from transformers import TrainerCallback

from talentrl.config import SftSection
from talentrl.learning.resuming import EpochOrder, newest_checkpoint
from talentrl.learning.rl import train_rl
from talentrl.learning.sft import train_sft
from talentrl.rollouts.episode import episodes_frame

Result = tuple[list[dict[str, Any]], pl.DataFrame, Path]


def rl(model: Path, folder: Path, callbacks: list[TrainerCallback] | None = None) -> Result:
    """Five steps of two tasks, over six tasks: three steps an epoch; checkpoints after steps 2, 4, 5."""
    settings = toy_settings(steps=5, save_steps=2, kl=0.05, learning_rate=3e-3)
    history, episodes = train_rl(
        toy_runner(model, graded), toy_tasks(6), settings, 3, folder / "scratch", folder / "out", callbacks
    )
    return without_times(history), untimed(episodes), folder / "out"


def demonstrations(model: Path) -> pl.DataFrame:
    """24 conversations of different lengths, as sampled by the random model."""
    from talentrl.learning.arms import collect

    runner = toy_runner(model, graded)
    return episodes_frame(collect(runner, toy_tasks(6), toy_settings(), 0).episodes)


def sft(model: Path, folder: Path, callbacks: list[TrainerCallback] | None = None) -> Result:
    """Two epochs of three steps; checkpoints after steps 2, 4, 6."""
    settings = SftSection(epochs=2, batch=8, learning_rate=3e-3, save_steps=2)
    history = train_sft(model, demonstrations(model), settings, 3, folder / "scratch", folder / "out", callbacks)
    return without_times(history), pl.DataFrame(), folder / "out"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Products on several threads differ in the last bits from one run to the next (5e-7 in log-probabilities)."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def uninterrupted(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Result]:
    return {train: train(tiny_model, tmp_path_factory.mktemp(train.__name__)) for train in (rl, sft)}


@pytest.mark.parametrize(
    ("step", "moment", "resumed_at"),
    [
        (1, "on_step_end", None),  # before the first checkpoint
        (2, "on_save", 2),
        (3, "on_step_end", 2),  # in the first epoch
        (4, "on_substep_end", 4),  # in the second epoch, with a step's rollouts made but not learnt from
        (5, "on_step_end", 4),
        ("last", "on_save", "last"),  # after the last checkpoint, before the model was written
    ],
)
@pytest.mark.parametrize("train", [rl, sft])
def test_a_killed_run_ends_in_the_same_place(
    tiny_model: Path,
    tmp_path: Path,
    uninterrupted: dict[Any, Result],
    train: Any,
    step: Any,
    moment: str,
    resumed_at: Any,
) -> None:
    expected_history, expected_episodes, expected_output = uninterrupted[train]
    if step == "last":
        step = resumed_at = len(expected_history)
    with pytest.raises(Killed):
        train(tiny_model, tmp_path, [KillAfter(step, moment)])
    assert not (tmp_path / "out").exists()
    checkpoint = newest_checkpoint(tmp_path / "scratch")
    assert (checkpoint.name if checkpoint else None) == (f"checkpoint-{resumed_at}" if resumed_at else None)
    history, episodes, output = train(tiny_model, tmp_path)
    assert history == expected_history
    assert [entry["step"] for entry in history] == list(range(1, len(history) + 1))
    assert episodes.equals(expected_episodes)
    assert_same_weights(output, expected_output)


def test_training_moved_the_weights(tiny_model: Path, uninterrupted: dict[Any, Result]) -> None:
    start = weights(tiny_model)
    for _, _, output in uninterrupted.values():
        end = weights(output)
        assert start.keys() == end.keys()
        assert not all(bool((start[name] == end[name]).all()) for name in start)


def test_episodes_of_all_steps_are_kept_with_their_step(uninterrupted: dict[Any, Result]) -> None:
    _, episodes, _ = uninterrupted[rl]
    assert episodes["step"].to_list() == [step for step in range(5) for _ in range(8)]
    tasks = [episodes.filter(pl.col("step") == step)["task_id"].unique().to_list() for step in range(5)]
    everything = {task.task_id for task in toy_tasks(6)}
    assert set().union(*tasks[:3]) == everything  # an epoch shows each task once
    assert len(set().union(*tasks[3:])) == 4
    assert [set(step) for step in tasks[:2]] != [set(step) for step in tasks[3:]]


def test_a_checkpoint_cut_short_by_a_kill_is_passed_over(
    tiny_model: Path, tmp_path: Path, uninterrupted: dict[Any, Result]
) -> None:
    with pytest.raises(Killed):
        rl(tiny_model, tmp_path, [KillAfter(3)])
    scratch = tmp_path / "scratch"
    shutil.copytree(scratch / "checkpoint-2", scratch / "checkpoint-4")
    for file in ("trainer_state.json", "rng_state.pth", "optimizer.pt"):  # written last
        (scratch / "checkpoint-4" / file).unlink()
    history, _, output = rl(tiny_model, tmp_path)
    assert history == uninterrupted[rl][0]
    assert_same_weights(output, uninterrupted[rl][2])


def test_newest_checkpoint_is_by_number(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "none") is None
    for step in (9, 10, 100, 11):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").touch()
    (tmp_path / "checkpoint-200").mkdir()
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.name == "checkpoint-100"


def test_the_order_of_an_epoch_depends_on_seed_and_epoch_alone() -> None:
    import torch

    class Shuffled:
        generator: torch.Generator | None = None

        def __iter__(self) -> Any:
            return iter(torch.randperm(50, generator=self.generator).tolist())

        def __len__(self) -> int:
            return 50

    def order(seed: int, epoch: int) -> list[int]:
        sampler = EpochOrder(Shuffled(), seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    one = EpochOrder(Shuffled(), 1)
    assert list(one) == list(one) == order(1, 0)
    assert sorted(order(1, 1)) == list(range(50))
    assert len({tuple(order(seed, epoch)) for seed, epoch in [(1, 0), (1, 1), (5, 0)]}) == 3
