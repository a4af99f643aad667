"""The embedded back end: no server, one folder with one SQLite file (`talentrl.retrieval.store`).

Nearest neighbours are exact, by a matrix product over all vectors, which are kept in memory until the index
changes; beyond `neighbours.EXACT` documents a graph finds them (`talentrl.retrieval.neighbours`).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from talentrl.errors import InputError
from talentrl.retrieval import neighbours
from talentrl.retrieval.encoder import Encoder, QueryEncoder, Vectors, encode_documents
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
        index = cls(folder, encoder, scoring)
        index._store.renew()
        return index

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def upsert(self, documents: Iterable[Document]) -> None:
        """See `HybridIndex.upsert`."""
        checked = checked_documents(documents)
        self._store.upsert(checked, encode_documents(self._encoder, checked))
        self._store.renew()

    def delete(self, ids: Iterable[str]) -> None:
        """See `HybridIndex.delete`."""
        self._store.delete(ids)
        self._store.renew()

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
        n = max(k, self._scoring.candidates)
        hits: list[list[Hit]] = []
        with self._store.transaction():
            within = set(self._store.rows_with(filter)) if filter else None
            for start in range(0, len(queries), _BLOCK):
                block = slice(start, start + _BLOCK)
                nearest = self._nearest(vectors[block], n, within)
                for query, vector, prior, near in zip(
                    queries[block], vectors[block], priors[block], nearest, strict=True
                ):
                    weights = {row: prior[id] for id, row in self._store.rows_of(prior).items()} if prior else {}
                    if within is not None:
                        weights = {row: weight for row, weight in weights.items() if row in within}
                    bm25 = self._store.bm25(query, {*near, *weights}, n, within)
                    rows, ids, stored = self._store.candidates({*near, *weights, *bm25})
                    # A matrix product rounds by its shape; row by row, equal documents get equal similarities.
                    dense = (stored.astype(np.float64) * vector).sum(axis=1)
                    lexical = [bm25.get(row, 0.0) for row in rows]
                    boost = [weights.get(row, 0.0) for row in rows]
                    hits.append(self._scoring.hits(ids, dense, lexical, boost, prior_weight)[:k])
        return hits

    def _nearest(self, vectors: Vectors, n: int, within: set[int] | None) -> list[list[int]]:
        """Rows of the `n` documents nearest to each of `vectors`, of those in `within` if given."""
        snapshot = self._snapshot = self._store.snapshot(self._snapshot)
        rows, stored, graph = snapshot.rows, snapshot.vectors, snapshot.graph
        if within is not None and graph and len(within) <= neighbours.EXACT:
            rows, _, stored = self._store.candidates(within)
            graph = within = None
        cosines = vectors @ stored.T
        if within is not None:
            cosines[:, [row not in within for row in rows]] = -np.inf
        nearest = [[rows[place] for place in neighbours.top(cosine, n)] for cosine in cosines]
        if graph is None:
            return nearest

        def passing(found: Sequence[int]) -> set[int]:
            unchanged = self._store.unchanged(found)
            return unchanged if within is None else unchanged & within

        for number, vector in enumerate(vectors):
            found = graph.nearest(vector, n, passing)
            if nearest[number]:
                rows, _, stored = self._store.candidates({*nearest[number], *found})
                found = [rows[place] for place in neighbours.top(stored @ vector, n)]
            nearest[number] = found
        return nearest
