"""The trainer's own parts, on a generation batch of two tasks."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from learning_samples import LOSS_TYPES, assert_close, loss_gradient, micro_batches, toy_runner, toy_settings
from trl import GRPOTrainer

from talentrl.learning.rl import TalentGRPOTrainer


@pytest.mark.parametrize("tasks", [2, 3])
def test_a_micro_batch_holds_one_whole_task(trainer: Callable[..., Any], tasks: int) -> None:
    made = trainer(tasks=tasks, interventions=["null"])
    batches = micro_batches(made)
    made_ids = set()
    for batch in batches:
        assert len(batch["completion_ids"]) == 6
        rows = batch["task_row"]
        assert (rows == rows[0]).all()
        made_ids.add(int(rows[0]))
    assert made_ids == set(range(tasks))
    trained = sum(int((batch["tool_mask"] * batch["completion_mask"]).sum()) for batch in batches)
    assert all(int(batch["num_items_in_batch"]) == trained for batch in batches)


def test_rows_keep_their_own_advantages_through_the_trainers_shuffle(trainer: Callable[..., Any]) -> None:
    """Each row's advantages stand on its own sampled tokens."""
    made = trainer()
    for batch in micro_batches(made):
        trained = (batch["tool_mask"] * batch["completion_mask"]).bool()
        assert (batch["advantages"][~trained] == 0).all()
        for row in range(len(trained)):
            values = batch["advantages"][row][trained[row]]
            assert len(values.unique()) <= 2  # one for the routing span, one for the executions


@pytest.mark.parametrize("kl", [0.0, 0.1])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_loss_through_prefix_trees_equals_plain_forward_passes(
    trainer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, loss_type: str, kl: float
) -> None:
    made = trainer(loss_type=loss_type, kl=kl, interventions=["null"])
    batches = micro_batches(made)
    with torch.no_grad():  # away from the reference, so that the KL term has a gradient
        for parameter in made.model.parameters():
            parameter.mul_(1.05)
    loss, gradient = loss_gradient(made, batches)
    entropy = made._metrics["train"]["entropy"][-1]
    monkeypatch.setattr(
        TalentGRPOTrainer,
        "_get_per_token_logps_and_entropies",
        GRPOTrainer._get_per_token_logps_and_entropies,
    )
    plain_loss, plain_gradient = loss_gradient(made, batches)
    assert loss == pytest.approx(plain_loss, abs=1e-5)
    assert_close(gradient, plain_gradient)
    if kl:  # all trained tokens are scored
        assert entropy == pytest.approx(made._metrics["train"]["entropy"][-1], rel=1e-3)


def test_entropy_is_the_mean_over_scored_tokens(trainer: Callable[..., Any]) -> None:
    """A random model is nearly uniform over its 258 tokens, also where few tokens have an advantage."""
    made = trainer()
    batches = micro_batches(made)
    for batch in batches:
        some = torch.zeros_like(batch["advantages"])
        trained = (batch["tool_mask"] * batch["completion_mask"]).bool()
        some[0, trained[0].nonzero()[0]] = 1.0
        batch["advantages"] = some
    loss_gradient(made, batches)
    assert all(5.0 < value < math.log(258) + 0.01 for value in made._metrics["train"]["entropy"])
    batches[0]["advantages"] = torch.zeros_like(batches[0]["advantages"])
    loss_gradient(made, batches[:1])
    assert math.isnan(made._metrics["train"]["entropy"][-1])  # TRL leaves it out of the step's mean


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_sampler_and_trainer_agree_about_what_was_sampled(trainer: Callable[..., Any], temperature: float) -> None:
    made = trainer(temperature=temperature)
    batches = micro_batches(made)
    loss_gradient(made, batches)
    metrics = made._metrics["train"]
    assert len(metrics["sampling/sampling_logp_difference/mean"]) == 2
    assert max(metrics["sampling/sampling_logp_difference/mean"]) < 1e-5
    assert metrics["sampling/importance_sampling_ratio/mean"] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert metrics["sampling/importance_sampling_ratio/max"] == pytest.approx([1.0], abs=1e-4)


def test_the_ratio_of_a_step_is_hand_worked(trainer: Callable[..., Any]) -> None:
    """One scored token a task, which the sampler found half as likely, and twice as likely, as the trainer."""
    made = trainer()
    batches = micro_batches(made)
    made._metrics["train"].clear()
    for batch, log_ratio in zip(batches, (math.log(2), -math.log(2)), strict=True):
        place = (0, int((batch["tool_mask"] * batch["completion_mask"])[0].nonzero()[0]))
        batch["advantages"] = torch.zeros_like(batch["advantages"])
        batch["advantages"][place] = 1.0
        batch["sampling_per_token_logps"][place] -= log_ratio
    loss_gradient(made, batches)
    metrics = made._metrics["train"]
    assert metrics["sampling/sampling_logp_difference/mean"] == pytest.approx([math.log(2)] * 2, abs=1e-4)
    assert metrics["sampling/importance_sampling_ratio/mean"] == pytest.approx([2.0, 0.5], abs=1e-4)
    assert metrics["sampling/importance_sampling_ratio/max"] == pytest.approx([2.0], abs=1e-4)


def test_tokens_forwarded_are_the_distinct_prefixes_that_the_loss_needs(trainer: Callable[..., Any]) -> None:
    made = trainer()
    batches = micro_batches(made)
    prefixes = 0
    for batch in batches:
        needed = set()
        for row in range(4):
            ids = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
            scored = batch["advantages"][row].nonzero()
            last = int(scored[-1]) if len(scored) else None
            if last is not None:
                ids += batch["completion_ids"][row][:last].tolist()
                needed |= {tuple(ids[: end + 1]) for end in range(len(ids))}
        prefixes += len(needed)
    loss_gradient(made, batches)
    assert made._metrics["train"]["tokens/forwarded"] == [prefixes]


@pytest.mark.parametrize("name", ["tools", "environment_factory"])
def test_tools_are_refused(tiny_model: Path, tmp_path: Path, name: str) -> None:
    def search(query: str) -> str:
        """Search."""
        return query

    with pytest.raises(ValueError, match=f"`{name}` cannot be combined with TalentRL's rollouts"):
        TalentGRPOTrainer(
            runner=toy_runner(tiny_model),
            tasks={},
            settings=toy_settings(),
            episodes_folder=tmp_path,
            **{name: [search]},
        )
