"""The estimators against the enumerated policy gradient of a softmax bandit (float64)."""

import itertools

import pytest
import torch

from talentrl.learning.advantages import routing_advantages

LOGITS = torch.tensor([0.7, -0.4, 0.1], dtype=torch.float64)
SUCCESS = torch.tensor([0.9, 0.2, 0.6], dtype=torch.float64)
"""Chance that the single rollout of an arm of this talent returns 1, else 0."""


def exact_gradient(logits: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """∇ Σ_z π(z) R(z) by automatic differentiation."""
    leaf = logits.clone().requires_grad_()
    (torch.softmax(leaf, 0) * values).sum().backward()
    assert leaf.grad is not None
    return leaf.grad


def score(talent: int) -> torch.Tensor:
    """∇ log π(talent)."""
    unit = torch.zeros_like(LOGITS)
    unit[talent] = 1
    return unit - torch.softmax(LOGITS, 0)


def expected_update(estimator: str, arms: int, null: float | None = None) -> torch.Tensor:
    """E[mean over spans of A_route · ∇ log π], arms drawn i.i.d., over all draws and outcomes; one task a batch."""
    pi = torch.softmax(LOGITS, 0)
    total = torch.zeros_like(LOGITS)
    extra = [] if null is None else [null]
    routed = torch.tensor([[True] * arms + [False] * len(extra)])
    for talents in itertools.product(range(3), repeat=arms):
        chances = [float(SUCCESS[z]) for z in talents] + extra
        for outcomes in itertools.product((0.0, 1.0), repeat=len(chances)):
            chance = torch.stack([pi[z] for z in talents]).prod()
            for outcome, p in zip(outcomes, chances, strict=True):
                chance = chance * (p if outcome else 1 - p)
            returns = torch.tensor(outcomes, dtype=torch.float64).view(1, -1, 1)
            advantage = routing_advantages(estimator, returns, routed, ~routed, routed * 0.5)[0]  # type: ignore[arg-type]
            total += chance * sum(advantage[a] * score(z) for a, z in enumerate(talents)) / arms
    return total


def test_contrast_with_null_is_unbiased() -> None:
    torch.testing.assert_close(expected_update("contrast_null", 2, null=0.3), exact_gradient(LOGITS, SUCCESS))


@pytest.mark.parametrize("arms", [2, 3])
def test_leave_one_out_is_unbiased(arms: int) -> None:
    torch.testing.assert_close(expected_update("contrast_loo", arms), exact_gradient(LOGITS, SUCCESS))


@pytest.mark.parametrize("arms", [1, 2, 3])
@pytest.mark.parametrize("estimator", ["terminal", "shared"])
def test_a_mean_that_holds_the_arm_itself_shortens_the_gradient_and_keeps_its_direction(
    estimator: str, arms: int
) -> None:
    """The baseline holds 1/n of the arm's own return, so n arms give (1 − 1/n) of the gradient."""
    shortened = exact_gradient(LOGITS, SUCCESS) * (1 - 1 / arms)
    torch.testing.assert_close(expected_update(estimator, arms), shortened, atol=1e-12, rtol=0)


def test_terminal_over_a_batch_of_tasks_is_unbiased_up_to_the_own_share() -> None:
    """Two tasks with one arm each and different returns: other tasks in the baseline add no bias."""
    pi, second = torch.softmax(LOGITS, 0), torch.tensor([0.1, 0.8, 0.3], dtype=torch.float64)
    routed = torch.ones(2, 1, dtype=torch.bool)
    total = torch.zeros_like(LOGITS)
    for one, two in itertools.product(range(3), repeat=2):
        returns = torch.stack([SUCCESS[one], second[two]]).view(2, 1, 1)
        advantage = routing_advantages("terminal", returns, routed, ~routed, routed * 0.5)
        total += pi[one] * pi[two] * (advantage[0, 0] * score(one) + advantage[1, 0] * score(two)) / 2
    exact = (exact_gradient(LOGITS, SUCCESS) + exact_gradient(LOGITS, second)) / 2
    torch.testing.assert_close(total, exact / 2)


def test_all_action_is_the_exact_gradient() -> None:
    """Talents are tags of any probability; π is renormalised over them."""
    tags = LOGITS - 1.3  # unnormalised log-probabilities
    every = torch.ones(1, 3, dtype=torch.bool)
    returns = SUCCESS.view(1, 3, 1)
    for probabilities in (tags.exp(), torch.softmax(tags, 0)):
        advantage = routing_advantages("all_action", returns, every, ~every, probabilities[None])[0]
        torch.testing.assert_close(advantage, exact_gradient(tags, SUCCESS))  # Σ_a A_a ∇ℓ_a, and ∇ℓ_a is a unit


def test_all_action_leaves_out_a_failed_arm_exactly() -> None:
    returns = torch.tensor([[[0.9], [torch.nan], [0.6]]], dtype=torch.float64)
    every = torch.ones(1, 3, dtype=torch.bool)
    advantage = routing_advantages("all_action", returns, every, ~every, torch.softmax(LOGITS, 0)[None])[0]
    left = exact_gradient(LOGITS[[0, 2]], torch.tensor([0.9, 0.6], dtype=torch.float64))
    torch.testing.assert_close(advantage[[0, 2]], left)
    assert advantage[1] == 0


def test_all_action_averages_over_noisy_rollouts_without_bias() -> None:
    every = torch.ones(1, 3, dtype=torch.bool)
    total = torch.zeros_like(LOGITS)
    for outcomes in itertools.product((0.0, 1.0), repeat=6):
        returns = torch.tensor(outcomes, dtype=torch.float64).view(1, 3, 2)
        chance = torch.where(returns == 1, SUCCESS.view(1, 3, 1), 1 - SUCCESS.view(1, 3, 1)).prod()
        advantage = routing_advantages("all_action", returns, every, ~every, torch.softmax(LOGITS, 0)[None])
        total += chance * advantage[0]
    torch.testing.assert_close(total, exact_gradient(LOGITS, SUCCESS))


@pytest.mark.parametrize("drawn", [[0, 1], [0, 2], [1, 2], [0, 1, 2]])
def test_contrast_distinct_is_the_gradient_of_the_policy_confined_to_the_drawn_talents(drawn: list[int]) -> None:
    confined = LOGITS[drawn].clone().requires_grad_()
    (torch.softmax(confined, 0) * SUCCESS[drawn]).sum().backward()
    every = torch.ones(1, len(drawn), dtype=torch.bool)
    pi = torch.softmax(LOGITS, 0)[None, drawn]
    found = routing_advantages("contrast_distinct", SUCCESS[drawn].view(1, -1, 1), every, ~every, pi)[0]
    torch.testing.assert_close(found, confined.grad)
