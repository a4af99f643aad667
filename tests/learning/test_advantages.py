"""Hand-worked cases of the estimators, and what each of them must ignore."""

import itertools
import math
from typing import Any, get_args

import pytest
import torch

from talentrl.config import Estimator
from talentrl.learning.advantages import (
    arm_means,
    execution_advantages,
    routing_advantages,
    row_coefficients,
)

ESTIMATORS = get_args(Estimator)
NAN = math.nan

# One task: three routed arms and the null arm last, two rollouts each. Arm means: 1, 1/2, 0; null 1/2.
RETURNS = torch.tensor([[[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]])
ROUTED = torch.tensor([[True, True, True, False]])
NULL = torch.tensor([[False, False, False, True]])
PROBABILITIES = torch.tensor([[0.5, 0.25, 0.25, 0.0]])


def route(estimator: str, returns: torch.Tensor = RETURNS, **options: Any) -> torch.Tensor:
    masks = {"routed_TA": ROUTED, "null_TA": NULL, "probabilities_TA": PROBABILITIES}
    for name in masks:
        masks[name] = options.pop(name, masks[name].expand(len(returns), -1))
    return routing_advantages(estimator, returns, **masks, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # baseline .5·1 + .25·.5 + .25·0 = .625; weights .5, .25, .25
        ("contrast_distinct", [0.5 * 0.375, 0.25 * -0.125, 0.25 * -0.625, 0]),
        # the others' means: (.5 + 0)/2, (1 + 0)/2, (1 + .5)/2
        ("contrast_loo", [0.75, 0.0, -0.75, 0]),
        ("contrast_null", [0.5, 0.0, -0.5, 0]),
        ("all_action", [0.5 * 0.375, 0.25 * -0.125, 0.25 * -0.625, 0]),
        ("terminal", [0.5, 0.0, -0.5, 0]),  # the batch's mean return is 4/8
        ("shared", [0.5, 0.0, -0.5, 0]),  # so is the task's
    ],
)
def test_hand_worked_case(estimator: str, expected: list[float]) -> None:
    assert route(estimator).tolist() == [expected]


def test_terminal_compares_with_the_batch_and_shared_with_the_task() -> None:
    returns = torch.stack([RETURNS[0], torch.ones(4, 2)])  # task means 1/2 and 1, batch mean 3/4
    assert route("terminal", returns).tolist() == [[0.25, -0.25, -0.75, 0], [0.25, 0.25, 0.25, 0]]
    assert route("shared", returns).tolist() == [[0.5, 0, -0.5, 0], [0, 0, 0, 0]]


def test_contrast_distinct_is_the_weighted_contrast_with_the_other_arms() -> None:
    returns = torch.rand(50, 4, 3, generator=torch.Generator().manual_seed(0))
    routed = torch.ones(50, 4, dtype=torch.bool)
    pi = torch.tensor([0.4, 0.3, 0.2, 0.1]).expand(50, -1)
    found = route("contrast_distinct", returns, routed_TA=routed, null_TA=~routed, probabilities_TA=pi)
    means = returns.mean(2)
    others = ((pi * means).sum(1, keepdim=True) - pi * means) / (1 - pi)
    torch.testing.assert_close(found, pi * (1 - pi) * (means - others))
    torch.testing.assert_close(found.sum(1), torch.zeros(50), atol=1e-6, rtol=0)


def test_leave_one_out_is_the_task_mean_stretched() -> None:
    """R̄_a − mean of the others = A/(A−1) · (R̄_a − mean of all); alone, an arm has nothing to be compared with."""
    returns = torch.rand(50, 4, 3, generator=torch.Generator().manual_seed(3))
    routed = torch.ones(50, 4, dtype=torch.bool)
    found = route("contrast_loo", returns, routed_TA=routed, null_TA=~routed)
    means = returns.mean(2)
    torch.testing.assert_close(found, 4 / 3 * (means - means.mean(1, keepdim=True)))
    alone = torch.tensor([[True, False, False, False]])
    assert route("contrast_loo", routed_TA=alone).tolist() == [[0.0] * 4]


def test_a_talent_that_the_policy_excludes_is_not_pushed_further() -> None:
    """However badly it did: an update bounded by its probability cannot run away."""
    pi = torch.tensor([[0.6, 0.4 - 1e-6, 1e-6, 0.0]])
    found = route("contrast_distinct", torch.tensor([[[1.0], [0.0], [0.0], [0.0]]]), probabilities_TA=pi)
    assert found[0, 0] == pytest.approx(0.24, abs=1e-3)
    assert -1e-6 < found[0, 2] < 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("scale", [False, True])
def test_equal_arms_give_no_contrast(estimator: str, scale: bool) -> None:
    assert route(estimator, torch.full((3, 4, 2), 0.5), scale=scale).tolist() == [[0.0] * 4] * 3


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_shift_of_all_returns_changes_nothing(estimator: str) -> None:
    returns = torch.rand(5, 4, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(route(estimator, returns + 8), route(estimator, returns), atol=1e-5, rtol=0)
    torch.testing.assert_close(execution_advantages(returns + 8), execution_advantages(returns), atol=1e-5, rtol=0)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("scaling", ["none", "group"])
def test_a_shift_of_one_arm_changes_its_routing_only(estimator: str, scaling: str) -> None:
    shifted = RETURNS + torch.tensor([0.0, 0.5, 0.0, 0.0]).view(1, 4, 1)
    assert torch.equal(execution_advantages(shifted, scaling), execution_advantages(RETURNS, scaling))
    assert route(estimator, shifted)[0, 1] > route(estimator)[0, 1]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_talents_the_policy_did_not_sample_get_nothing(estimator: str) -> None:
    returns = torch.rand(6, 4, 2, generator=torch.Generator().manual_seed(2))
    assert (route(estimator, returns)[:, 3] == 0).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_failed_rollout_shifts_no_mean(estimator: str) -> None:
    one_failed = torch.tensor([[[1.0, 1.0], [1.0, NAN], [0.0, 0.0], [0.0, 1.0]]])
    without = torch.tensor([[[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]])
    found = route(estimator, one_failed)
    assert found.isfinite().all()
    if estimator not in ("terminal", "shared"):  # these two weight rollouts, not arms
        assert torch.equal(found, route(estimator, without))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_arm_whose_rollouts_all_failed_is_left_out(estimator: str) -> None:
    failed = torch.tensor([[[1.0, 1.0], [NAN, NAN], [0.0, 0.0], [0.0, 1.0]]])
    found = route(estimator, failed)
    left = [0, 2, 3]
    alone = route(
        estimator,
        failed[:, left],
        routed_TA=ROUTED[:, left],
        null_TA=NULL[:, left],
        probabilities_TA=PROBABILITIES[:, left],
    )
    assert found[0, 1] == 0
    assert torch.equal(found[:, left], alone)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("scale", [False, True])
def test_a_task_whose_rollouts_all_failed_teaches_nothing(estimator: str, scale: bool) -> None:
    lost = torch.full((1, 4, 2), NAN)
    assert (route(estimator, lost, scale=scale) == 0).all()
    both = route(estimator, torch.cat([lost, RETURNS]), scale=False)
    assert (both[0] == 0).all()
    torch.testing.assert_close(both[1:], route(estimator))
    for scaling, within in itertools.product(("none", "group", "batch"), ("arm", "task")):
        assert (execution_advantages(lost, scaling, within) == 0).all()


def test_no_comparison_arm_means_no_contrast() -> None:
    one = torch.tensor([[True, False, False, False]])
    assert (route("contrast_distinct", routed_TA=one) == 0).all()
    assert (route("contrast_null", null_TA=torch.zeros_like(NULL)) == 0).all()
    assert (route("contrast_null", torch.tensor([[[1.0], [0.0], [1.0], [NAN]]])) == 0).all()


def test_shrinkage_is_by_the_number_of_rollouts() -> None:
    assert route("contrast_null", shrinkage=2.0).tolist() == [[0.25, 0.0, -0.25, 0.0]]  # 2 / (2 + 2)


def test_scale_is_the_root_mean_square_over_the_batch_never_over_one_task() -> None:
    # Two tasks, two arms each: advantages ±1/4 and ±1/8. Scaled by its own task each would be ±1.
    returns = torch.tensor([[[1.0], [0.0]], [[0.5], [0.0]]])
    both = torch.ones(2, 2, dtype=torch.bool)
    found = routing_advantages("contrast_distinct", returns, both, ~both, both * 0.5, scale=True)
    rms = math.sqrt((1 / 16 + 1 / 16 + 1 / 64 + 1 / 64) / 4) + 1e-4
    torch.testing.assert_close(found, torch.tensor([[1 / 4, -1 / 4], [1 / 8, -1 / 8]]) / rms)


def test_execution_hand_worked_cases() -> None:
    assert execution_advantages(RETURNS).tolist() == [[[0, 0], [0.5, -0.5], [0, 0], [-0.5, 0.5]]]
    assert execution_advantages(RETURNS, within="task").tolist() == [
        [[0.5, 0.5], [0.5, -0.5], [-0.5, -0.5], [-0.5, 0.5]]
    ]
    group = execution_advantages(RETURNS, "group")  # σ of (1, 0) with n − 1 is √½
    assert group[0, 1].tolist() == pytest.approx([0.5 / (0.5**0.5 + 1e-4), -0.5 / (0.5**0.5 + 1e-4)])
    batch = execution_advantages(RETURNS, "batch")  # four of eight advantages are ±½: root mean square √⅛
    assert batch[0, 1].tolist() == pytest.approx([0.5 / (0.125**0.5 + 1e-4), -0.5 / (0.125**0.5 + 1e-4)])


@pytest.mark.parametrize("scaling", ["none", "group", "batch"])
def test_arms_of_one_rollout_and_constant_arms_have_no_execution_advantage(scaling: str) -> None:
    assert (execution_advantages(torch.tensor([[[1.0], [0.0]]]), scaling) == 0).all()
    assert (execution_advantages(torch.full((2, 3, 4), 0.25), scaling) == 0).all()
    assert (execution_advantages(torch.tensor([[[1.0, NAN, NAN]]]), scaling) == 0).all()


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 0.7])
@pytest.mark.parametrize("rollouts", [3, 5, 7])
def test_equal_returns_that_are_no_binary_fractions_have_advantage_exactly_zero(value: float, rollouts: int) -> None:
    returns = torch.full((2, 3, rollouts), value)
    for scaling, within in itertools.product(("none", "group", "batch"), ("arm", "task")):
        assert (execution_advantages(returns, scaling, within) == 0).all()
    every = torch.ones(2, 3, dtype=torch.bool)
    for estimator, scale in itertools.product(("contrast_distinct", "all_action", "shared", "terminal"), (False, True)):
        found = routing_advantages(estimator, returns, every, ~every, every / 3, scale=scale)  # type: ignore[arg-type]
        assert (found == 0).all(), estimator


@pytest.mark.parametrize("scaling", ["none", "group", "batch"])
@pytest.mark.parametrize("within", ["arm", "task"])
def test_execution_advantages_of_a_group_sum_to_zero_and_skip_failures(scaling: str, within: str) -> None:
    returns = torch.rand(4, 3, 5, generator=torch.Generator().manual_seed(3))
    returns[0, 0, 0] = returns[1, :, 2] = NAN
    found = execution_advantages(returns, scaling, within)
    sums = found.sum(2) if within == "arm" else found.sum((1, 2))
    torch.testing.assert_close(sums, torch.zeros_like(sums), atol=1e-5, rtol=0)
    assert (found[returns.isnan()] == 0).all()


def test_return_splits_into_an_execution_and_a_routing_part() -> None:
    returns = torch.rand(4, 3, 5, generator=torch.Generator().manual_seed(4))
    routed = torch.ones(4, 3, dtype=torch.bool)
    against_task = returns - returns.mean((1, 2), keepdim=True)
    routing = routing_advantages("shared", returns, routed, ~routed, routed / 3)
    torch.testing.assert_close(execution_advantages(returns) + routing.unsqueeze(2), against_task)
    torch.testing.assert_close(execution_advantages(returns, within="task"), against_task)


def test_arm_means_ignore_failures() -> None:
    assert arm_means(torch.tensor([[[1.0, NAN], [0.5, 0.0]]])).tolist() == [[1.0, 0.25]]
    assert arm_means(torch.tensor([[[NAN, NAN]]])).isnan().all()


def test_row_coefficients_hand_worked() -> None:
    tokens = torch.tensor([2.0, 3.0, 0.0, 5.0])
    assert row_coefficients("grpo", tokens, 50).tolist() == pytest.approx([1 / 8, 1 / 12, 1 / 4, 1 / 20])
    assert row_coefficients("dapo", tokens, 50).tolist() == pytest.approx([1 / 10] * 4)
    assert row_coefficients("dr_grpo", tokens, 50).tolist() == pytest.approx([1 / 200] * 4)
