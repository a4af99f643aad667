"""Pure scoring: two lists of similarities and a prior become one ranking.

    fused = α · dense + (1 − α) · bm25 / max bm25                (`linear`)
    fused = α / (60 + rank_dense) + (1 − α) / (60 + rank_bm25)   (`rrf`: Cormack et al. 2009, weighted by α)
    sim   = (fused − mean) / (std + ε)
    score = sim + λ · w

All arrays have shape (candidates,). Standardising over the candidates lets one λ serve every encoder and both
fusions. What holds: scaling BM25 or, short of clipping, shifting the dense scores changes nothing under
`linear`; any strictly increasing change of either list changes nothing under `rrf`.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Fusion = Literal["linear", "rrf"]

RRF_CONSTANT = 60
EPSILON = 1e-9
# An encoder's output moves by ~1e-7 with the other texts of its batch. Cosines are rounded before they are
# standardised, which would magnify that noise, and scores before they are compared: so equal documents tie,
# and only a value on the edge between two roundings can still depend on the batch.
DECIMALS = 6


@dataclass(frozen=True)
class Ranking:
    """`order` lists candidates from best to worst; the other arrays stay in candidate order."""

    order: NDArray[np.intp]
    score: Array
    bm25: Array
    dense: Array


def linear(dense: Array, bm25: Array, alpha: float) -> Array:
    """Weighted sum of two lists in [0, 1]."""
    return alpha * dense + (1 - alpha) * bm25


def reciprocal_rank(dense: Array, bm25: Array, alpha: float) -> Array:
    """Weighted reciprocal-rank fusion; a candidate that BM25 did not match (score 0) has no rank there."""
    lexical = np.where(bm25 > 0, 1 / (RRF_CONSTANT + ranks(bm25)), 0.0)
    return alpha / (RRF_CONSTANT + ranks(dense)) + (1 - alpha) * lexical


def ranks(values: Array) -> Array:
    """Rank of each value, the largest first and from 1; equal values share the better rank."""
    rounded = np.round(values, DECIMALS)
    larger: NDArray[np.intp] = len(rounded) - np.searchsorted(np.sort(rounded), rounded, side="right")
    return (1 + larger).astype(np.float64)


def standardise(values: Array) -> Array:
    """Values as standard deviations from their mean; all 0 when they are equal."""
    return (values - values.mean()) / (values.std() + EPSILON)


def rank(dense: Array, bm25: Array, weights: Array, *, alpha: float, fusion: Fusion, prior_weight: float) -> Ranking:
    """Score and order candidates, which come sorted by id so that ties fall in id order.

    Args:
        dense: cosine similarity in [−1, 1], at least one candidate.
        bm25: BM25 as the engine gives it, ≥ 0; 0 where no term matches.
        weights: association weight w, 0 where there is none.
        alpha: share of the dense list, in [0, 1].
        fusion: `linear` or `rrf`.
        prior_weight: λ ≥ 0. At infinity the order is its limit: by weight first, then by similarity; the
            score is then the similarity alone, so that it stays finite.
    """
    dense = np.asarray(np.round(np.maximum(dense, 0.0), DECIMALS), dtype=np.float64)
    bm25 = bm25 / max(bm25.max(initial=0.0), EPSILON)
    fused = (linear if fusion == "linear" else reciprocal_rank)(dense, bm25, alpha)
    similarity = standardise(fused)
    hard = math.isinf(prior_weight)
    score = np.round(similarity if hard else similarity + prior_weight * weights, DECIMALS)
    # lexsort takes its last key first and is stable, so what is still equal keeps the order of the ids.
    order = np.lexsort((-score, -weights)) if hard else np.argsort(-score, kind="stable")
    return Ranking(order, score, np.round(bm25, DECIMALS), dense)
