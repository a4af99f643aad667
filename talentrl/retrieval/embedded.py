"""The embedded back end: no server, one folder with one SQLite file (`talentrl.retrieval.store`).

Nearest neighbours are exact, by a matrix product over all vectors, which are kept in memory until the index
changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from talentrl.errors import InputError
from talentrl.retrieval.encoder import Encoder, QueryEncoder, Vectors, encode_documents
from talentrl.retrieval.fusion import DECIMALS
from talentrl.retrieval.index import Document, Hit, HybridIndex, checked_documents, checked_priors, documents_in_order
from talentrl.retrieval.scoring import DEFAULT_SCORING, Scoring
from talentrl.retrieval.store import Snapshot, Store

FILE = "index.sqlite"
_BLOCK = 64  # queries in one matrix product, which bounds its memory


class EmbeddedIndex(HybridIndex):
    """A `HybridIndex` in one folder: `build` makes it, the constructor opens it."""

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        scoring: Scoring = DEFAULT_SCORING,
    ) -> None:
        """Open the index that `build` put into `folder` with `encoder`.

        Raises:
            InputError: there is no index, or it is broken or made by another encoder.
        """
        self._store = Store(folder / FILE, encoder)
        self._encoder = encoder
        self._scoring = scoring
        self._snapshot: Snapshot | None = None
        self._queries = QueryEncoder(encoder)

    @classmethod
    def build(
        cls,
        folder: Path,
        documents: Iterable[Document],
        encoder: Encoder,
        scoring: Scoring = DEFAULT_SCORING,
    ) -> "EmbeddedIndex":
        """Make an index of `documents` in `folder`, in place of one that may be there, and open it.

        The new index appears whole or not at all. Those who have the old one open keep it.

        Raises:
            InputError: there are no documents, or one cannot be indexed (empty or repeated id, empty text, a
                vector that is not finite).
        """
        checked = checked_documents(documents)
        if not checked:
            raise InputError(f"{folder}: no documents to index, expected at least one")
        Store.create(folder / FILE, checked, encode_documents(encoder, checked), encoder)
        return cls(folder, encoder, scoring)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def upsert(self, documents: Iterable[Document]) -> None:
        """See `HybridIndex.upsert`."""
        checked = checked_documents(documents)
        self._store.upsert(checked, encode_documents(self._encoder, checked))

    def delete(self, ids: Iterable[str]) -> None:
        """See `HybridIndex.delete`."""
        self._store.delete(ids)

    def count(self) -> int:
        """See `HybridIndex.count`."""
        return self._store.count()

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """See `HybridIndex.documents`."""
        return documents_in_order(self._store.documents(ids), ids)

    def search_many(
        self,
        queries: Sequence[str],
        k: int,
        boosts: Sequence[Mapping[str, float] | None] | None = None,
        prior_weight: float = 1.0,
        filter: Mapping[str, str] | None = None,
    ) -> list[list[Hit]]:
        """See `HybridIndex.search_many`."""
        priors = checked_priors(queries, k, boosts, prior_weight)
        vectors = self._queries.encode(queries)
        with self._store.transaction():
            self._snapshot = snapshot = self._store.snapshot(self._snapshot)
            within = self._store.rows_with(filter) if filter else None
            allowed = np.full(len(snapshot.ids), within is None)
            allowed[[snapshot.position_of_row[row] for row in within or []]] = True
            hits: list[list[Hit]] = []
            for start in range(0, len(queries), _BLOCK):
                cosines = vectors[start : start + _BLOCK] @ snapshot.vectors.T
                for number, cosine in enumerate(cosines, start):
                    near = _top(np.where(allowed, cosine, -np.inf), max(k, self._scoring.candidates))
                    weights = {
                        snapshot.position[id]: weight
                        for id, weight in priors[number].items()
                        if id in snapshot.position and allowed[snapshot.position[id]]
                    }
                    bm25 = self._bm25(snapshot, queries[number], {*near, *weights}, k, within)
                    places = np.array(sorted({*near, *weights, *bm25}), dtype=np.intp)
                    hits.append(self._hits(snapshot, places, vectors[number], bm25, weights, prior_weight)[:k])
        return hits

    def _bm25(
        self, snapshot: Snapshot, query: str, wanted: set[int], k: int, within: list[int] | None
    ) -> dict[int, float]:
        """BM25 by position, for the first cut and for the wanted positions that match a term."""
        rows = {snapshot.rows[place] for place in wanted}
        found = self._store.bm25(query, rows, max(k, self._scoring.candidates), within)
        return {snapshot.position_of_row[row]: score for row, score in found.items()}

    def _hits(
        self,
        snapshot: Snapshot,
        places: NDArray[np.intp],
        vector: Vectors,
        bm25: Mapping[int, float],
        weights: Mapping[int, float],
        prior_weight: float,
    ) -> list[Hit]:
        """All candidates at the positions `places` (ascending, so in order of id), best first."""
        # A matrix product rounds by its shape; row by row, equal documents get equal similarities.
        dense = (snapshot.vectors[places].astype(np.float64) * vector).sum(axis=1)
        return self._scoring.hits(
            [snapshot.ids[place] for place in places],
            dense,
            [bm25.get(place, 0.0) for place in places],
            [weights.get(place, 0.0) for place in places],
            prior_weight,
        )


def _top(cosine: NDArray[np.floating], n: int) -> list[int]:
    """Positions of the `n` largest cosines, ties in order of position; −inf never counts."""
    rounded = np.round(cosine, DECIMALS)
    n = min(n, int(np.isfinite(rounded).sum()))
    if n == 0:
        return []
    threshold = np.partition(rounded, len(rounded) - n)[len(rounded) - n]
    near = np.flatnonzero(rounded >= threshold)
    chosen: list[int] = near[np.argsort(-rounded[near], kind="stable")[:n]].tolist()
    return chosen
