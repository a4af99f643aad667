"""Masked tokens get exactly no gradient, on every loss path.

Masked tokens are context, so the gradient in question is that through their own log-probability. The
log-probabilities that a loss asks for are replaced by leaves: the loss then reaches the model's weights in no other way
(checked), and its derivative by each leaf is read off.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from learning_samples import (
    LOSS_TYPES,
    FirstGradient,
    graded,
    loss_gradient,
    micro_batches,
    toy_runner,
    toy_settings,
    toy_tasks,
)
from trl import GRPOTrainer

from talentrl.config import Estimator, SftSection
from talentrl.learning import replay as replay_module
from talentrl.learning import rl as rl_module
from talentrl.learning import sft as sft_module
from talentrl.learning.arms import collect
from talentrl.learning.replay import Contrast, replay
from talentrl.learning.rl import TalentGRPOTrainer
from talentrl.learning.sft import train_sft
from talentrl.policy.prefix_tree import tree_log_probabilities
from talentrl.rollouts.episode import episodes_frame


class Leaves:
    """Stands for `tree_log_probabilities`, cut off from the model; keeps what was asked for."""

    def __init__(self) -> None:
        self.sequences: list[list[int]] = []
        self.wanted: list[list[int]] = []
        self.leaves: list[torch.Tensor] = []

    def __call__(
        self, model: Any, sequences: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]], *args: Any
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        with torch.no_grad():
            logprobs, entropies = tree_log_probabilities(model, sequences, wanted, *args)
        leaves = [values.clone().requires_grad_() for values in logprobs]
        self.sequences += [list(ids) for ids in sequences]
        self.wanted += [list(places) for places in wanted]
        self.leaves += leaves
        return leaves, entropies


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Leaves]:
    """Cuts a module off from the model."""

    def make(module: Any) -> Leaves:
        leaves = Leaves()
        monkeypatch.setattr(module, "tree_log_probabilities", leaves)
        return leaves

    return make


def moved(trainer: TalentGRPOTrainer) -> list[dict[str, Any]]:
    """Its micro-batches; its weights then go away from the reference, so that the KL term has a gradient."""
    batches = micro_batches(trainer)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.mul_(1.05)
    return batches


def derivative(trainer: TalentGRPOTrainer, batch: dict[str, Any], leaves: Leaves) -> torch.Tensor:
    """d loss / d log-probability of every token after the prompt (B, tokens); 0 where the loss asked for none."""
    first = len(leaves.leaves)
    trainer.model.zero_grad()
    trainer._compute_loss(trainer.model, dict(batch)).backward()
    assert all(p.grad is None or not p.grad.any() for p in trainer.model.parameters())
    found = torch.zeros(batch["completion_ids"].shape)
    prompts = batch["prompt_mask"].sum(1).tolist()
    for row, (places, leaf) in enumerate(zip(leaves.wanted[first:], leaves.leaves[first:], strict=True)):
        if leaf.grad is not None:
            found[row, torch.tensor(places, dtype=torch.long) - prompts[row]] = leaf.grad
    return found


@pytest.mark.parametrize("scale", ["none", "batch", "group"])
@pytest.mark.parametrize("estimator", get_args(Estimator))
def test_reinforcement(trainer: Callable[..., Any], cut: Callable[[Any], Leaves], estimator: str, scale: str) -> None:
    """All estimators, scales and loss types, with the KL penalty and without."""
    made = trainer(estimator=estimator, scale_rewards=scale, arms=3, kl=0.1, interventions=["null", "strategy_only"])
    batches, leaves = moved(made), cut(rl_module)
    for made.loss_type in LOSS_TYPES:
        for made.beta in (0.0, 0.1):
            for batch in batches:
                found = derivative(made, batch, leaves)
                masked = (batch["tool_mask"] * batch["completion_mask"]) == 0
                assert masked.any()
                assert (found[masked] == 0).all()
                advantaged = batch["advantages"] != 0
                assert advantaged.any()
                if made.beta:  # the penalty reaches every trained token
                    assert (found[~masked] != 0).all()
                else:
                    assert torch.equal(found != 0, advantaged)


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_reinforcement_as_trl_scores_tokens(
    trainer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, loss_type: str, kl: float
) -> None:
    """TRL's own forward pass scores masked tokens too; the loss has no derivative by them."""
    made = trainer(loss_type=loss_type, kl=kl, interventions=["null", "strategy_only"])
    batches = moved(made)
    scored: list[torch.Tensor] = []
    score = GRPOTrainer._get_per_token_logps_and_entropies

    def keep(*args: Any, **kwargs: Any) -> Any:
        logprobs, *rest = score(*args, **kwargs)
        scored.append(logprobs.detach().requires_grad_())
        return scored[-1], *rest

    monkeypatch.setattr(TalentGRPOTrainer, "_get_per_token_logps_and_entropies", keep)
    for batch in batches:
        made._compute_loss(made.model, dict(batch)).backward()
        masked = (batch["tool_mask"] * batch["completion_mask"]) == 0
        derivatives = scored[-1].grad
        assert derivatives is not None
        assert (derivatives[masked] == 0).all()
        assert (derivatives[~masked] != 0).any()


@pytest.mark.parametrize(("kl", "plain"), [(0.0, False), (0.1, False), (0.1, True)])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_advantages_on_masked_tokens_change_nothing(
    trainer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, loss_type: str, kl: float, plain: bool
) -> None:
    """Context, observations, forced tags, second copies of a routing span and padding: whatever advantage stood on
    them, in both ways of computing the loss, the gradient is the same bit for bit."""
    made = trainer(loss_type=loss_type, kl=kl, interventions=["null", "strategy_only"])
    batches = moved(made)
    if plain:
        monkeypatch.setattr(
            TalentGRPOTrainer,
            "_get_per_token_logps_and_entropies",
            GRPOTrainer._get_per_token_logps_and_entropies,
        )
    before = loss_gradient(made, batches)
    for batch in batches:
        masked = (batch["tool_mask"] * batch["completion_mask"]) == 0
        assert masked.any()
        batch["advantages"] = batch["advantages"].masked_fill(masked, 1e6)
    after = loss_gradient(made, batches)
    assert after[0] == before[0]
    assert all(torch.equal(after[1][name], before[1][name]) for name in before[1])
    assert any((gradient != 0).any() for gradient in before[1].values())


def test_replay(tiny_model: Path, tmp_path: Path, cut: Callable[[Any], Leaves]) -> None:
    runner, (one, other) = toy_runner(tiny_model), toy_tasks(2)
    examples = [Contrast(one, ["blue", "gold", "grey"], [1.0, 0.5, 0.0]), Contrast(other, ["pink", "gold"], [0.0, 1.0])]
    leaves, keep = cut(replay_module), FirstGradient()
    replay(runner, examples, toy_settings(replay_epochs=1, replay_batch=2), 0, tmp_path, [keep])
    assert not keep.gradient
    assert len(leaves.leaves) == 5
    for ids, places, leaf in zip(leaves.sequences, leaves.wanted, leaves.leaves, strict=True):
        text = runner.chat.decode([ids[place] for place in places])
        assert text.startswith("<talent>") and text.endswith("</talent>")
        assert places[-1] == len(ids) - 1
        assert leaf.grad is not None
        assert len(leaf.grad.unique()) == 1  # a routing span has one advantage


def test_supervised(tiny_model: Path, tmp_path: Path, cut: Callable[[Any], Leaves]) -> None:
    runner = toy_runner(tiny_model, graded)
    settings = toy_settings(interventions=["null", "strategy_only"])
    frame = episodes_frame(collect(runner, toy_tasks(2), settings, 0).episodes)
    leaves, keep = cut(sft_module), FirstGradient()
    section = SftSection(epochs=1, batch=len(frame), save_steps=100)
    train_sft(tiny_model, frame, section, 0, tmp_path / "scratch", tmp_path / "out", [keep])
    assert not keep.gradient
    labelled = [(row["token_ids"], list(_labelled(row))) for row in frame.iter_rows(named=True)]
    assert sorted(zip(leaves.sequences, leaves.wanted, strict=True)) == sorted(labelled)
    tokens = sum(map(len, leaves.wanted))
    for leaf in leaves.leaves:
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad, torch.full_like(leaf, -1 / tokens))


def _labelled(row: dict[str, Any]) -> Iterator[int]:
    for place, (routing, action) in enumerate(zip(row["routing_mask"], row["action_mask"], strict=True)):
        if routing or action:
            yield place
