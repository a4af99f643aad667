"""What the supervised stage trains on, and that it has the layout of rollouts."""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from learning_samples import ToyRunner, byte_tokenizer, toy_runner, toy_tasks
from transformers import TrainerCallback

from talentrl.benchmarks.taskset import Task
from talentrl.config import SftSection
from talentrl.errors import InputError
from talentrl.learning.demonstrations import _demonstrate
from talentrl.learning.sft import train_sft, training_rows
from talentrl.policy.engine import Generation, Sampling
from talentrl.rollouts.episode import Episode, episodes_frame
from talentrl.rollouts.interventions import Arm
from talentrl.rollouts.runner import RolloutRequest, Routing

SCRIPT = ["<search>the way</search>", "<answer>yes</answer>"]
CONTEXT_TURNS = ["Strategy: Be gold.\nskill-gold: Think gold.", "<information>About the way.</information>"]


def script(task: Task, talent: str, opening: str) -> Generator[str, str, None]:
    yield SCRIPT[0]
    yield SCRIPT[1]


@pytest.fixture(scope="module")
def runner(tiny_model: Path) -> ToyRunner:
    return toy_runner(tiny_model, turn_tokens=64)


def demonstrate(runner: ToyRunner, intervention: str = "routed", talent: str = "gold") -> Episode:
    return _demonstrate(runner, script, toy_tasks(1)[0], intervention, talent, 0)


def spoken(labels: Sequence[int]) -> list[str]:
    """The stretches of text that carry loss."""
    stretches: list[list[int]] = [[]]
    for label in labels:
        if label != -100:
            stretches[-1].append(label)
        elif stretches[-1]:
            stretches.append([])
    return [byte_tokenizer().decode(stretch) for stretch in stretches if stretch]


def test_loss_is_on_the_routing_target_and_the_executions_literally(runner: ToyRunner) -> None:
    (row,) = training_rows(episodes_frame([demonstrate(runner)]), 0)
    assert spoken(row["labels"]) == ["<talent>gold</talent>", *SCRIPT]
    kept = [(token, label) for token, label in zip(row["input_ids"], row["labels"], strict=True) if label != -100]
    assert all(token == label for token, label in kept)
    assert byte_tokenizer().decode(row["input_ids"]) == (
        "<|im_start|>system\nChoose a talent for the question: <talent>id</talent>. Then work step by step: "
        "<search>query</search> to read passages, <answer>short answer</answer> to finish.\nTalents:\n"
        "blue: the blue way\ngold: the gold way\ngrey: the grey way\npink: the pink way<|im_end|>\n"
        "<|im_start|>user\nWhich way?<|im_end|>\n"
        "<|im_start|>assistant\n<talent>gold</talent><|im_end|>\n"
        f"<|im_start|>user\n{CONTEXT_TURNS[0]}<|im_end|>\n"
        "<|im_start|>assistant\n<search>the way</search><|im_end|>\n"
        f"<|im_start|>user\n{CONTEXT_TURNS[1]}<|im_end|>\n"
        "<|im_start|>assistant\n<answer>yes</answer>"
    )


@pytest.mark.parametrize("intervention", ["forced", "null"])
def test_a_routing_turn_that_is_no_target_carries_no_loss(runner: ToyRunner, intervention: str) -> None:
    (row,) = training_rows(episodes_frame([demonstrate(runner, intervention)]), 0)
    assert spoken(row["labels"]) == SCRIPT


class Parrot:
    """An engine that says the script."""

    def __init__(self, runner: ToyRunner) -> None:
        self._runner = runner
        self._turn = -1

    def generate(self, prompts: list[list[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        self._turn += 1
        ids = self._runner.chat.encode(SCRIPT[self._turn])
        return [Generation(ids, [-1.0] * len(ids), True) for _ in prompts]


@pytest.mark.parametrize("intervention", ["routed", "null"])
def test_demonstrations_have_the_layout_of_rollouts(
    runner: ToyRunner, monkeypatch: pytest.MonkeyPatch, intervention: str
) -> None:
    talent = "gold" if intervention == "routed" else None
    ids = runner.chat.encode(f"<talent>{talent or 'none'}</talent>")
    routing = Routing(talent, ids, [-0.1] * len(ids), sampled=talent is not None)
    arm = Arm(toy_tasks(1)[0], intervention, talent)  # type: ignore[arg-type]
    monkeypatch.setattr(runner, "engine", Parrot(runner))
    (rollout,) = runner.run([RolloutRequest(arm, routing, 0, 0)], temperature=1.0)
    demonstration = demonstrate(runner, intervention)
    assert demonstration.token_ids == rollout.token_ids
    assert demonstration.routing_mask == rollout.routing_mask
    assert demonstration.action_mask == rollout.action_mask
    assert demonstration.turns == rollout.turns
    assert (demonstration.value, demonstration.stop_reason) == (rollout.value, rollout.stop_reason) == (1.0, "answered")


def test_tasks_are_shuffled_by_the_seed_and_their_conversations_stay_together() -> None:
    ids = [task for task in range(20) for _ in range(3)]
    frame = pl.DataFrame(
        {
            "task_id": [f"task{task}" for task in ids],
            "token_ids": [[task] for task in ids],
            "routing_mask": [[True]] * len(ids),
            "action_mask": [[False]] * len(ids),
        }
    )
    orders = []
    for seed in (0, 0, 1):
        tasks = [row["input_ids"][0] for row in training_rows(frame, seed)]
        assert tasks[::3] == tasks[1::3] == tasks[2::3]
        assert sorted(tasks[::3]) == list(range(20))
        orders.append(tasks[::3])
    assert orders[0] == orders[1] != orders[2]


class Batches(TrainerCallback):
    """Keeps the batches of an epoch and the sizes of the optimiser steps."""

    def __init__(self) -> None:
        self.batches: list[dict[str, torch.Tensor]] = []
        self.effective = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, train_dataloader: Any = None, **_: Any) -> None:
        self.effective = args.per_device_train_batch_size * args.gradient_accumulation_steps
        self.batches = list(train_dataloader)


def train(model: Path, folder: Path, frame: pl.DataFrame, *callbacks: Any, **values: Any) -> list[dict[str, float]]:
    settings = SftSection(**{"epochs": 1, "batch": 4, "save_steps": 100} | values)
    return train_sft(model, frame, settings, 0, folder / "scratch", folder / "out", list(callbacks))


def test_trl_trains_on_our_labels_and_nothing_is_cut(runner: ToyRunner, tiny_model: Path, tmp_path: Path) -> None:
    kinds = ["routed", "forced", "null", "routed", "routed"]
    frame = episodes_frame([demonstrate(runner, kind) for kind in kinds])
    keep = Batches()
    history = train(tiny_model, tmp_path, frame, keep)
    rows = [
        (ids[mask.bool()].tolist(), labels[mask.bool()].tolist(), labels[~mask.bool()].tolist())
        for batch in keep.batches
        for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True)
    ]
    expected = [(row["input_ids"], row["labels"]) for row in training_rows(frame, 0)]
    assert sorted((ids, labels) for ids, labels, _ in rows) == sorted(expected)
    assert all(set(padding) <= {-100} for _, _, padding in rows)
    assert len(history) == 2  # 5 conversations in steps of 4


def test_loss_is_the_mean_over_the_trained_tokens_of_all_conversations(
    runner: ToyRunner, tiny_model: Path, tmp_path: Path
) -> None:
    """Equal to a forward pass of each conversation alone, whatever their lengths and common prefixes."""
    frame = episodes_frame([demonstrate(runner, kind) for kind in ("routed", "routed", "forced", "null")])
    first = train(tiny_model, tmp_path, frame)[0]["loss"]
    likelihoods = []
    for row in frame.iter_rows(named=True):
        ids = torch.tensor([row["token_ids"]])
        trained = torch.tensor(row["routing_mask"]) | torch.tensor(row["action_mask"])
        with torch.no_grad():
            logprobs = runner.engine.model(ids[:, :-1]).logits.log_softmax(-1)[0]  # type: ignore[attr-defined]
        likelihoods.append(logprobs.gather(1, ids[0, 1:, None]).squeeze(1)[trained[1:]])
    assert first == pytest.approx(-float(torch.cat(likelihoods).mean()), abs=1e-5)


@pytest.mark.parametrize("batch", [1, 3, 5, 6, 8, 10])
def test_a_step_takes_as_many_conversations_as_configured(
    runner: ToyRunner, tiny_model: Path, tmp_path: Path, batch: int
) -> None:
    class Stop(Batches):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = True

    keep = Stop()
    train(tiny_model, tmp_path, episodes_frame([demonstrate(runner)] * 10), keep, batch=batch)
    assert keep.effective == batch


def test_training_learns_the_targets(runner: ToyRunner, tiny_model: Path, tmp_path: Path) -> None:
    frame = episodes_frame([demonstrate(runner)] * 16)
    history = train(tiny_model, tmp_path, frame, epochs=4, learning_rate=1e-2)
    assert history[-1]["loss"] < history[0]["loss"] / 2
    trained = toy_runner(tmp_path / "out")
    chances = {t: turn.probability or 0.0 for t, turn in trained.score_talents(toy_tasks(1))[0].items()}
    assert max(chances, key=lambda talent: chances[talent]) == "gold"


def test_a_folder_that_is_no_model_is_one_clear_line(runner: ToyRunner, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="not a Hugging Face model folder"):
        train(tmp_path / "empty", tmp_path, episodes_frame([demonstrate(runner)]))
    assert not (tmp_path / "out").exists()
