import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.errors import InputError
from talentrl.evaluation.statistics import (
    compare_paired,
    exact_paired_test,
    mean_difference_interval,
    mean_interval,
    paired_differences,
)


def test_mcnemar_by_hand():
    # 5 wins, 1 loss, 4 ties: two-sided P(at least 5 of 6 or at most 1 of 6) = 2 * (6 + 1) / 64.
    p_value, test = exact_paired_test([1, 1, 1, 1, 1, -1, 0, 0, 0, 0])
    assert test == "McNemar exact"
    assert p_value == pytest.approx(14 / 64)


def test_sign_flip_by_hand():
    # |sum| >= 1 for the patterns +++ and ---, of 8: 0.5 + 0.25 + 0.25 is the most extreme sum.
    p_value, test = exact_paired_test([0.5, 0.25, 0.25, 0.0])
    assert test == "sign-flip exact"
    assert p_value == pytest.approx(2 / 8)


@given(st.lists(st.sampled_from([-1.0, -0.5, -0.25, 0.25, 0.5, 1.0]), min_size=2, max_size=8))
def test_sign_flip_equals_enumeration(differences):
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(differences))).reshape(len(differences), -1).T
    sums = signs @ np.array(differences)
    expected = np.mean(np.abs(sums) >= abs(sum(differences)) - 1e-9)
    assert exact_paired_test(differences)[0] == pytest.approx(expected)


def test_many_graded_differences_fall_back_to_monte_carlo():
    differences = np.random.default_rng(0).uniform(-0.2, 0.4, size=60)
    first, second = (exact_paired_test(differences, seed=7) for _ in range(2))
    assert first == second
    assert first[1] == "sign-flip Monte Carlo"
    assert 0 < first[0] < 0.01


@pytest.mark.parametrize("differences", [[0.0, 0.0], [0.5], [0.0, 1 / 3]])
def test_no_evidence_gives_p_one(differences):
    assert exact_paired_test(differences)[0] == 1.0


def test_interval_by_hand():
    # The bootstrap mean of (0, 1) is 0, 0.5 or 1 with chances 1/4, 1/2, 1/4.
    estimate = mean_interval([0.0, 1.0])
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (0.5, 0.0, 1.0, 2)


def test_interval_is_the_percentile_one_where_the_sample_is_skewed():
    # Of (0, 0, 1) the bootstrap mean is 0 with chance 8/27 and 1 with chance 1/27, both above 2.5%.
    estimate = mean_interval([0.0, 0.0, 1.0])
    assert (estimate.low, estimate.high) == (0.0, 1.0)


def test_all_right_or_all_wrong_is_not_certainty():
    # Clopper-Pearson: the upper limit for 0 of n is 1 - (0.025)^(1/n).
    assert mean_interval([0.0] * 20).high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert mean_interval([1.0] * 20).low == pytest.approx(0.025 ** (1 / 20))


def test_one_task_has_no_interval_and_excludes_nothing():
    estimate = mean_difference_interval([1.0])
    assert estimate.value == 1.0
    assert math.isnan(estimate.low)
    assert not estimate.excludes_zero


def test_bootstrap_interval_covers_the_true_mean():
    draws = np.random.default_rng(11)
    covered = 0
    for seed in range(200):
        estimate = mean_interval(draws.binomial(1, 0.4, size=80), seed=seed, resamples=1000)
        covered += estimate.low <= 0.4 <= estimate.high
    assert 0.90 <= covered / 200 <= 0.99


def test_paired_interval_is_tighter_than_unpaired_spread_and_excludes_zero():
    draws = np.random.default_rng(5)
    hardness = draws.uniform(0, 1, size=100)  # what tasks share cancels within a pair
    first = {f"t{i}": h + 0.05 for i, h in enumerate(hardness)}
    second = {f"t{i}": h for i, h in enumerate(hardness)}
    result = compare_paired(first, second)
    assert result.difference.value == pytest.approx(0.05)
    assert result.difference.high - result.difference.low < 1e-9
    assert result.difference.excludes_zero


def test_order_of_tasks_does_not_matter():
    first, second = {"a": 1.0, "b": 0.0, "c": 0.5}, {"c": 0.25, "a": 0.0, "b": 0.0}
    backwards = dict(reversed(first.items()))
    assert compare_paired(first, second) == compare_paired(backwards, second)


def test_systems_without_a_shared_task_are_refused():
    with pytest.raises(InputError, match="'rl' and 'sft' share no task"):
        paired_differences({"a": 1.0}, {"b": 1.0}, ("rl", "sft"))


@pytest.mark.parametrize(("first", "second", "owner"), [("abc", "ab", "rl"), ("ab", "abc", "sft")])
def test_systems_that_differ_in_tasks_are_refused(first, second, owner):
    with pytest.raises(InputError, match=f"differ in tasks: 1 only in '{owner}', such as 'c'"):
        paired_differences(dict.fromkeys(first, 1.0), dict.fromkeys(second, 1.0), ("rl", "sft"))


@pytest.mark.parametrize("values", [[], [0.5, float("nan")]])
def test_no_values_and_broken_values_are_refused(values):
    with pytest.raises(InputError):
        mean_interval(values)
