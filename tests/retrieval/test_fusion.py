"""What the fusion functions promise, on bare arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.retrieval.fusion import linear, rank, ranks, reciprocal_rank, standardise

# Scores on a grid, as equal values must stay equal through a change of scale.
grid = st.integers(0, 40).map(lambda n: n / 80)
pairs = st.lists(st.tuples(grid, grid), min_size=1, max_size=20).map(np.array)


def fused(dense, bm25, alpha=0.5, fusion="linear", prior_weight=0.0, weights=None):
    weights = np.zeros(len(dense)) if weights is None else np.asarray(weights)
    return rank(dense, bm25, weights, alpha=alpha, fusion=fusion, prior_weight=prior_weight)


def test_linear_matches_the_formula():
    dense, bm25, weights = np.array([0.8, 0.2, -0.4]), np.array([0.0, 6.0, 3.0]), np.array([0.0, 0.0, 1.0])
    ranking = fused(dense, bm25, alpha=0.25, prior_weight=2.0, weights=weights)
    raw = np.array([0.25 * 0.8, 0.25 * 0.2 + 0.75, 0.75 * 0.5])
    expected = (raw - raw.mean()) / raw.std() + 2.0 * weights
    assert ranking.score == pytest.approx(expected, abs=2e-6)
    assert ranking.bm25.tolist() == [0.0, 1.0, 0.5]
    assert ranking.dense.tolist() == [0.8, 0.2, 0.0]
    assert ranking.order.tolist() == [2, 1, 0]


def test_ranks_start_at_one_and_equal_values_share_the_better():
    assert ranks(np.array([0.3, 0.9, 0.3, 0.1])).tolist() == [2, 1, 2, 4]


def test_reciprocal_rank_matches_the_formula():
    values = reciprocal_rank(np.array([0.9, 0.5, 0.1]), np.array([0.0, 2.0, 7.0]), 0.5)
    # The first candidate was not matched by BM25: it has no rank there.
    assert values == pytest.approx([0.5 / 61, 0.5 / 62 + 0.5 / 62, 0.5 / 63 + 0.5 / 61])


@given(pairs, st.sampled_from([0.5, 2.0, 1000.0]))
def test_linear_does_not_see_the_scale_of_bm25(values, factor):
    dense, bm25 = values.T
    same, scaled = fused(dense, bm25), fused(dense, bm25 * factor)
    assert scaled.score == pytest.approx(same.score, abs=2e-6)
    assert scaled.order.tolist() == same.order.tolist()


@given(pairs, st.sampled_from([0.125, 0.25, 0.5]))
def test_linear_does_not_see_a_shift_of_dense_short_of_clipping(values, shift):
    dense, bm25 = values.T
    assert fused(dense + shift, bm25).score == pytest.approx(fused(dense, bm25).score, abs=2e-6)


@given(pairs, st.sampled_from([0.25, 0.5, 1.5]), st.sampled_from([0.0, 0.25]))
def test_dense_alone_does_not_see_an_affine_change(values, factor, shift):
    dense, bm25 = values.T
    same, changed = fused(dense, bm25, alpha=1.0), fused(dense * factor + shift, bm25, alpha=1.0)
    assert changed.score == pytest.approx(same.score, abs=2e-6)
    assert changed.order.tolist() == same.order.tolist()


@given(pairs)
def test_rrf_does_not_see_an_increasing_change_of_either_list(values):
    dense, bm25 = values.T
    same, changed = fused(dense, bm25, fusion="rrf"), fused(np.sqrt(dense), bm25**2, fusion="rrf")
    assert changed.score.tolist() == same.score.tolist()
    assert changed.order.tolist() == same.order.tolist()


@given(pairs, st.sampled_from(["linear", "rrf"]))
def test_noise_of_an_encoder_does_not_change_the_order(values, fusion):
    dense, bm25 = values.T
    noise = np.linspace(0, 2e-7, len(dense))
    order = fused(dense, bm25, fusion=fusion).order.tolist()
    assert fused(dense + noise, bm25, fusion=fusion).order.tolist() == order


def test_equal_values_standardise_to_zero():
    assert standardise(np.array([0.1, 0.1, 0.1])) == pytest.approx([0, 0, 0], abs=1e-6)
    assert standardise(linear(np.array([0.7]), np.array([0.2]), 0.5)).tolist() == [0.0]


def test_no_match_at_all_is_no_division_by_zero():
    ranking = fused(np.zeros(3), np.zeros(3))
    assert ranking.score.tolist() == [0, 0, 0]
    assert ranking.order.tolist() == [0, 1, 2]
