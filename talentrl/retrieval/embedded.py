"""The embedded back end: no server, one folder with one SQLite file (`talentrl.retrieval.store`).

Nearest neighbours are exact, by a matrix product over all vectors, which are kept in memory until the index
changes.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from talentrl.errors import InputError
from talentrl.retrieval import fusion as fusing
from talentrl.retrieval.encoder import Encoder, Vectors
from talentrl.retrieval.index import Document, Hit, checked_documents, checked_priors
from talentrl.retrieval.store import Snapshot, Store

FILE = "index.sqlite"
_MEMORY = 4096  # query vectors that are kept: 6 MB at 384 dimensions
_BLOCK = 64  # queries in one matrix product, which bounds its memory


class EmbeddedIndex:
    """A `HybridIndex` in one folder: `build` makes it, the constructor opens it."""

    def __init__(
        self,
        folder: Path,
        encoder: Encoder,
        alpha: float = 0.5,
        fusion: fusing.Fusion = "linear",
        candidates: int = 50,
    ) -> None:
        """Open the index in `folder`.

        Args:
            folder: where `build` put it.
            encoder: the one that it was built with.
            alpha: share of dense similarity in the fused score, in [0, 1].
            fusion: `linear` or `rrf`.
            candidates: how many documents each of the two first cuts keeps.

        Raises:
            InputError: there is no index, it is broken or made by another encoder; or a setting is out of
                range.
        """
        _check_settings(alpha, fusion, candidates)
        self._store = Store(folder / FILE, encoder)
        self._encoder = encoder
        self._alpha = alpha
        self._fusion = fusion
        self._candidates = candidates
        self._snapshot: Snapshot | None = None
        self._memory: OrderedDict[str, Vectors] = OrderedDict()

    @classmethod
    def build(
        cls,
        folder: Path,
        documents: Iterable[Document],
        encoder: Encoder,
        alpha: float = 0.5,
        fusion: fusing.Fusion = "linear",
        candidates: int = 50,
    ) -> "EmbeddedIndex":
        """Make an index of `documents` in `folder`, in place of one that may be there, and open it.

        The new index appears whole or not at all. Those who have the old one open keep it.

        Raises:
            InputError: there are no documents, one cannot be indexed (empty or repeated id, empty text, a
                vector that is not finite), or a setting is out of range.
        """
        _check_settings(alpha, fusion, candidates)
        checked = checked_documents(documents)
        if not checked:
            raise InputError(f"{folder}: no documents to index, expected at least one")
        Store.create(folder / FILE, checked, _encode(encoder, checked), encoder)
        return cls(folder, encoder, alpha, fusion, candidates)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def upsert(self, documents: Iterable[Document]) -> None:
        """See `HybridIndex.upsert`."""
        checked = checked_documents(documents)
        self._store.upsert(checked, _encode(self._encoder, checked))

    def delete(self, ids: Iterable[str]) -> None:
        """See `HybridIndex.delete`."""
        self._store.delete(ids)

    def count(self) -> int:
        """See `HybridIndex.count`."""
        return self._store.count()

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """See `HybridIndex.documents`."""
        found = self._store.documents(ids)
        missing = [id for id in ids if id not in found]
        if missing:
            raise InputError(f"the index has no document {missing[0]!r} ({len(missing)} of {len(ids)} are missing)")
        return [found[id] for id in ids]

    def search(
        self,
        query: str,
        k: int,
        boosts: Mapping[str, float] | None = None,
        prior_weight: float = 1.0,
        filter: Mapping[str, str] | None = None,
    ) -> list[Hit]:
        """See `HybridIndex.search`."""
        return self.search_many([query], k, [boosts], prior_weight, filter)[0]

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
        vectors = self._query_vectors(queries)
        with self._store.transaction():
            self._snapshot = snapshot = self._store.snapshot(self._snapshot)
            within = self._store.rows_with(filter) if filter else None
            allowed = np.full(len(snapshot.ids), within is None)
            allowed[[snapshot.position_of_row[row] for row in within or []]] = True
            hits: list[list[Hit]] = []
            for start in range(0, len(queries), _BLOCK):
                cosines = vectors[start : start + _BLOCK] @ snapshot.vectors.T
                for number, cosine in enumerate(cosines, start):
                    near = _top(np.where(allowed, cosine, -np.inf), max(k, self._candidates))
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
        found = self._store.bm25(query, rows, max(k, self._candidates), within)
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
        if not len(places):
            return []
        # A matrix product rounds by its shape; row by row, equal documents get equal similarities.
        dense = (snapshot.vectors[places].astype(np.float64) * vector).sum(axis=1)
        lexical = np.array([bm25.get(place, 0.0) for place in places])
        prior = np.array([weights.get(place, 0.0) for place in places])
        ranking = fusing.rank(dense, lexical, prior, alpha=self._alpha, fusion=self._fusion, prior_weight=prior_weight)
        parts = zip(
            [snapshot.ids[place] for place in places],
            ranking.score.tolist(),
            ranking.bm25.tolist(),
            ranking.dense.tolist(),
            prior.tolist(),
            strict=True,
        )
        hits = [Hit(*part) for part in parts]
        return [hits[place] for place in ranking.order]

    def _query_vectors(self, queries: Sequence[str]) -> Vectors:
        """Vectors of the queries, shape (queries, dimension); those seen before are not encoded again."""
        new = [query for query in dict.fromkeys(queries) if query not in self._memory]
        if new:
            # A query may come out of a model: what is not valid Unicode is replaced.
            texts = [query.encode("utf-8", "replace").decode("utf-8") for query in new]
            self._memory.update(zip(new, map(np.copy, self._encoder.encode(texts)), strict=True))
        for query in queries:
            self._memory.move_to_end(query)
        vectors = [self._memory[query] for query in queries]
        while len(self._memory) > _MEMORY:
            self._memory.popitem(last=False)
        return np.array(vectors, dtype=np.float32).reshape(len(queries), self._encoder.dimension)


def _top(cosine: NDArray[np.floating], n: int) -> list[int]:
    """Positions of the `n` largest cosines, ties in order of position; −inf never counts."""
    rounded = np.round(cosine, fusing.DECIMALS)
    n = min(n, int(np.isfinite(rounded).sum()))
    if n == 0:
        return []
    threshold = np.partition(rounded, len(rounded) - n)[len(rounded) - n]
    near = np.flatnonzero(rounded >= threshold)
    chosen: list[int] = near[np.argsort(-rounded[near], kind="stable")[:n]].tolist()
    return chosen


def _check_settings(alpha: float, fusion: str, candidates: int) -> None:
    if not 0 <= alpha <= 1 or fusion not in get_args(fusing.Fusion) or candidates < 1:
        raise InputError(
            f"retrieval: found alpha={alpha}, fusion={fusion!r}, candidates={candidates}; "
            f"expected alpha in [0, 1], fusion one of {get_args(fusing.Fusion)}, candidates ≥ 1"
        )


def _encode(encoder: Encoder, documents: Sequence[Document]) -> Vectors:
    vectors = encoder.encode([document.text for document in documents])
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise InputError(f"document {documents[int(finite.argmin())].id!r}: its embedding is not finite")
    return vectors
