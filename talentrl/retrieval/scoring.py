"""Candidates to hits: what every back end does once it knows their two similarities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np

from talentrl.errors import InputError
from talentrl.retrieval.fusion import Fusion, rank
from talentrl.retrieval.index import Hit


@dataclass(frozen=True)
class Scoring:
    """How a search finds its candidates and fuses their scores.

    Raises:
        InputError: a value is out of range.
    """

    alpha: float = 0.5
    """Share of dense similarity in the fused score, in [0, 1]."""
    fusion: Fusion = "linear"
    candidates: int = 50
    """How many documents each of the two first cuts keeps."""

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1 or self.fusion not in get_args(Fusion) or self.candidates < 1:
            raise InputError(
                f"retrieval: found alpha={self.alpha}, fusion={self.fusion!r}, candidates={self.candidates}; "
                f"expected alpha in [0, 1], fusion one of {get_args(Fusion)}, candidates ≥ 1"
            )

    def hits(
        self,
        ids: Sequence[str],
        dense: Sequence[float] | np.ndarray,
        bm25: Sequence[float],
        prior: Sequence[float],
        prior_weight: float,
    ) -> list[Hit]:
        """All candidates, best first. They come in order of id; the other arguments are as for `fusion.rank`."""
        if not ids:
            return []
        ranking = rank(
            np.asarray(dense),
            np.asarray(bm25),
            np.asarray(prior),
            alpha=self.alpha,
            fusion=self.fusion,
            prior_weight=prior_weight,
        )
        parts = zip(
            ids, ranking.score.tolist(), ranking.bm25.tolist(), ranking.dense.tolist(), map(float, prior), strict=True
        )
        hits = [Hit(*part) for part in parts]
        return [hits[place] for place in ranking.order]


DEFAULT_SCORING = Scoring()
