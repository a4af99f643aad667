"""The contract that every retrieval back end keeps, and the records that pass through it.

An index holds documents (an id, a text, string fields). A search scores its candidates by BM25 and by cosine
similarity, fuses the two (`talentrl.retrieval.fusion`) and adds a prior for the documents that the caller
boosts. Candidates are the union of the BM25 top n, the dense top n and every boosted document, so a boosted
document is scored even when it missed both first cuts. Skills and passages use the same index.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from talentrl.errors import InputError


@dataclass(frozen=True)
class Document:
    """A text to be found; `fields` hold what a search may filter by."""

    id: str
    text: str
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """A found document with its final score and the parts it was made of.

    `score` is in standard deviations of the candidates' similarity, plus prior weight × `prior`. `bm25` is in
    [0, 1], relative to the best BM25 of the query; `dense` is the cosine clipped to [0, 1]; `prior` is the
    document's boost, 0 when it has none.
    """

    id: str
    score: float
    bm25: float
    dense: float
    prior: float


class HybridIndex(Protocol):
    """What a back end does. The very next search sees a change. Hits of equal score are ordered by id."""

    def upsert(self, documents: Iterable[Document]) -> None:
        """Add documents, replacing those whose id is already there, all of them or none.

        Raises:
            InputError: an id occurs twice or is empty, or a text is empty.
        """

    def delete(self, ids: Iterable[str]) -> None:
        """Remove documents; ids that are not there are ignored."""

    def count(self) -> int:
        """Number of documents."""

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """The documents with these ids, in this order.

        Raises:
            InputError: an id is not in the index.
        """

    def search(
        self,
        query: str,
        k: int,
        boosts: Mapping[str, float] | None = None,
        prior_weight: float = 1.0,
        filter: Mapping[str, str] | None = None,
    ) -> list[Hit]:
        """The best `k` documents, best first; fewer when fewer are candidates.

        A query without an indexable term is answered by dense similarity alone.

        Args:
            query: free text; nothing in it is read as query syntax.
            k: at least 1.
            boosts: association weight (> 0) by document id; ids that are not in the index are ignored.
            prior_weight: λ ≥ 0. 0 is flat retrieval, infinity puts boosted documents first (hard filter).
            filter: field values that a document must have, all of them.

        Raises:
            InputError: `k`, `prior_weight` or a boost is out of range.
        """
        return self.search_many([query], k, [boosts], prior_weight, filter)[0]

    def search_many(
        self,
        queries: Sequence[str],
        k: int,
        boosts: Sequence[Mapping[str, float] | None] | None = None,
        prior_weight: float = 1.0,
        filter: Mapping[str, str] | None = None,
    ) -> list[list[Hit]]:
        """`search` for several queries at once, with boosts a query: the same hits, in fewer round trips."""


def checked_documents(documents: Iterable[Document]) -> list[Document]:
    """The documents in order of id, for back ends to index.

    Raises:
        InputError: an id is empty or occurs twice, or a text is empty or not valid Unicode.
    """
    ordered = sorted(documents, key=lambda document: document.id)
    previous = None
    for document in ordered:
        if not document.id:
            raise InputError(f"document with text {document.text[:40]!r}: id is empty")
        if document.id == previous:
            raise InputError(f"document {document.id!r}: id occurs twice")
        if not document.text.strip():
            raise InputError(f"document {document.id!r}: text is empty")
        try:
            (document.id + document.text).encode()
        except UnicodeEncodeError as error:
            raise InputError(f"document {document.id!r}: not valid Unicode ({error.reason})") from None
        previous = document.id
    return ordered


def documents_in_order(found: Mapping[str, Document], ids: Sequence[str]) -> list[Document]:
    """The documents `ids` out of those `found` by id. Raises InputError if some are missing."""
    missing = [id for id in ids if id not in found]
    if missing:
        raise InputError(f"the index has no document {missing[0]!r} ({len(missing)} of {len(ids)} are missing)")
    return [found[id] for id in ids]


def checked_priors(
    queries: Sequence[str], k: int, boosts: Sequence[Mapping[str, float] | None] | None, prior_weight: float
) -> list[dict[str, float]]:
    """The boosts that count, a query each: none when λ = 0, so that this is flat retrieval exactly.

    For back ends, which all check the arguments of a search alike.

    Raises:
        InputError: an argument of the search is out of range.
    """
    if k < 1:
        raise InputError(f"retrieval: k is {k}, expected at least 1")
    if not prior_weight >= 0:
        raise InputError(f"retrieval: prior_weight is {prior_weight}, expected a number ≥ 0 or infinity")
    given = [boost or {} for boost in boosts] if boosts is not None else [{}] * len(queries)
    if len(given) != len(queries):
        raise InputError(f"retrieval: {len(given)} boosts for {len(queries)} queries, expected one a query")
    for boost in given:
        for id, weight in boost.items():
            if not 0 <= weight < math.inf:
                raise InputError(f"retrieval: boost of {id!r} is {weight}, expected a finite number ≥ 0")
    return [{id: w for id, w in boost.items() if w > 0 and prior_weight > 0} for boost in given]
