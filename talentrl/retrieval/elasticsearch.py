"""The Elasticsearch back end: the official client, plain queries, fusion on our side (any licence will do).

An index is versioned: `build` fills a new one and moves the alias to it in one atomic step, so those who search
never see a partial index. One shard, so that BM25 counts over all documents and a batch of queries is one
`_msearch` of two searches a query:

1. the BM25 top n;
2. BM25 of the n nearest neighbours and of the boosted documents.

Both return vectors, from which the cosine is computed here, as the embedded back end does. BM25 is Lucene's over the
server's analyser; documents that were replaced or deleted still count in its statistics until Lucene merges them away.
"""

import base64
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from talentrl.errors import InputError
from talentrl.retrieval.connection import reason, request
from talentrl.retrieval.encoder import Encoder, QueryEncoder, Vectors, encode_documents
from talentrl.retrieval.index import Document, Hit, HybridIndex, checked_documents, checked_priors, documents_in_order
from talentrl.retrieval.scoring import DEFAULT_SCORING, Scoring
from talentrl.retrieval.store import tokens

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

FORMAT = 1
_META = "talentrl"
_MAX_TERMS = 1000  # a server refuses queries of more clauses than it was set to allow, 1,024 or more
_MAX_NEIGHBOURS = 10_000  # the server's limit on `num_candidates`
_BULK_ACTIONS, _BULK_BYTES = 500, 10 * 2**20
_BULK_RETRIES = 5
_SHOWN_ERRORS = 5


class ElasticsearchIndex(HybridIndex):
    """A `HybridIndex` behind an alias: `build` makes it, the constructor opens it."""

    def __init__(
        self,
        client: "Elasticsearch",
        alias: str,
        encoder: Encoder,
        scoring: Scoring = DEFAULT_SCORING,
        digest: str | None = None,
    ) -> None:
        """Open the index behind `alias`; it must hold the content `digest`, if one is given.

        Raises:
            InputError: the server does not answer or refuses; there is no index; or it has another format,
                encoder, dimension or digest.
        """
        self._client = client
        self._alias = alias
        self._encoder = encoder
        self._scoring = scoring
        self._queries = QueryEncoder(encoder)
        self._check(digest)

    @classmethod
    def build(
        cls,
        client: "Elasticsearch",
        alias: str,
        documents: Iterable[Document],
        encoder: Encoder,
        scoring: Scoring = DEFAULT_SCORING,
        digest: str = "",
        analyzer: str = "english",
    ) -> "ElasticsearchIndex":
        """Index `documents` anew, move `alias` to the new index, remove those that were behind it or left over.

        Args:
            client: from `connection.connect`.
            alias: name that searches use; the index is called alias, digest and a unique end.
            documents: what to index.
            encoder: makes the vectors.
            scoring: how the opened index scores.
            digest: names the content, for instance the bank's digest; checked when the index is opened.
            analyzer: the server's text analyser for BM25.

        Raises:
            InputError: there are no documents, one cannot be indexed, or the server fails; the alias then still
                points where it did.
        """
        checked = checked_documents(documents)
        if not checked:
            raise InputError(f"{alias}: no documents to index, expected at least one")
        vectors = _checked_vectors(checked, encode_documents(encoder, checked))
        name = f"{alias}-{digest[:12] or 'index'}-{uuid.uuid4().hex[:8]}"
        meta = {
            "alias": alias,
            "format": FORMAT,
            "encoder": encoder.fingerprint,
            "dimension": encoder.dimension,
            "digest": digest,
        }
        request(client.indices.create, index=name, mappings=_mappings(meta, analyzer), settings={"number_of_shards": 1})
        try:
            request(client.cluster.health, index=name, wait_for_status="yellow", timeout="30s")
            _bulk(client, _puts(name, checked, vectors))
            request(client.indices.refresh, index=name)
            found = request(client.count, index=name)["count"]
            if found != len(checked):
                raise InputError(f"{name}: the server holds {found} of {len(checked)} documents after indexing")
        except BaseException:
            client.options(ignore_status=404).indices.delete(index=name)
            raise
        # From here on the new index stays: a switch that seems to fail may have happened on the server.
        actions: list[dict[str, Any]] = [{"add": {"index": name, "alias": alias}}]
        actions += [{"remove_index": {"index": old}} for old in _versions(client, alias) if old != name]
        request(client.indices.update_aliases, actions=actions)
        return cls(client, alias, encoder, scoring, digest)

    def upsert(self, documents: Iterable[Document]) -> None:
        """See `HybridIndex.upsert`. All documents are checked first; a server that fails midway may keep some."""
        checked = checked_documents(documents)
        vectors = _checked_vectors(checked, encode_documents(self._encoder, checked))
        _bulk(self._client, _puts(self._alias, checked, vectors))
        request(self._client.indices.refresh, index=self._alias)

    def delete(self, ids: Iterable[str]) -> None:
        """See `HybridIndex.delete`."""
        _bulk(self._client, ({"_op_type": "delete", "_index": self._alias, "_id": id} for id in ids))
        request(self._client.indices.refresh, index=self._alias)

    def count(self) -> int:
        """See `HybridIndex.count`."""
        return int(request(self._client.count, index=self._alias)["count"])

    def documents(self, ids: Sequence[str]) -> list[Document]:
        """See `HybridIndex.documents`."""
        if not ids:
            return []
        answer = request(self._client.mget, index=self._alias, ids=list(ids), source_includes=["text", "fields"])
        found = {doc["_id"]: doc["_source"] for doc in answer["docs"] if doc.get("found")}
        return documents_in_order({id: Document(id, s["text"], s["fields"]) for id, s in found.items()}, ids)

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
        if not queries:
            return []
        vectors = self._queries.encode(queries)
        n = min(max(k, self._scoring.candidates), _MAX_NEIGHBOURS)
        searches: list[dict[str, Any]] = []
        for query, vector, prior in zip(queries, vectors, priors, strict=True):
            for body in _searches(query, vector, prior, n, filter):
                searches += [{"index": self._alias}, body]
        answers = request(self._client.msearch, searches=searches)["responses"]
        for answer in answers:
            if "error" in answer:
                raise InputError(f"{self._alias}: the server refused a search ({reason(answer['error'])})")
        return [
            self._hits(
                answers[2 * i]["hits"]["hits"] + answers[2 * i + 1]["hits"]["hits"], vector, prior, prior_weight
            )[:k]
            for i, (vector, prior) in enumerate(zip(vectors, priors, strict=True))
        ]

    def _hits(
        self, found: list[dict[str, Any]], vector: Vectors, prior: Mapping[str, float], prior_weight: float
    ) -> list[Hit]:
        candidates = {hit["_id"]: hit for hit in found}
        ids = sorted(candidates)
        stored = [_decode(candidates[id]["_source"]["vector_bytes"]) for id in ids]
        dense = [float((other.astype(np.float64) * vector).sum()) for other in stored]
        bm25 = [candidates[id]["_score"] or 0.0 for id in ids]
        return self._scoring.hits(ids, dense, bm25, [prior.get(id, 0.0) for id in ids], prior_weight)

    def _check(self, digest: str | None) -> None:
        """Refuse an index that was made for something else."""
        answer = request(self._client.options(ignore_status=404).indices.get_mapping, index=self._alias)
        if answer.meta.status == 404:
            raise InputError(
                f"{self._alias}: the server has no such index; rerun the index stage: `dvc repro -f index`"
            )
        if len(answer) != 1:
            raise InputError(f"{self._alias}: points at {len(answer)} indices, expected one; rerun the index stage")
        meta = next(iter(answer.values()))["mappings"].get("_meta", {}).get(_META, {})
        expected = {"format": FORMAT, "encoder": self._encoder.fingerprint, "dimension": self._encoder.dimension}
        expected |= {"digest": digest} if digest is not None else {}
        for key, value in expected.items():
            if meta.get(key) != value:
                raise InputError(
                    f"{self._alias}: found {key} {meta.get(key)!r}, expected {value!r}; "
                    "rerun the index stage: `dvc repro -f index`"
                )


def _mappings(meta: Mapping[str, object], analyzer: str) -> dict[str, Any]:
    """What is stored of a document. Neighbours are searched in float32: servers would quantise by default."""
    return {
        "dynamic": False,
        "_meta": {_META: meta},
        "properties": {
            "id": {"type": "keyword"},  # `_id` cannot be sorted by
            "text": {"type": "text", "analyzer": analyzer},
            "fields": {"type": "object", "enabled": False},
            "filters": {"type": "keyword"},
            "vector": {
                "type": "dense_vector",
                "dims": meta["dimension"],
                "index": True,
                "similarity": "cosine",
                "index_options": {"type": "hnsw", "m": 16, "ef_construction": 100},
            },
            "vector_bytes": {"type": "binary"},
        },
    }


def _puts(index: str, documents: Sequence[Document], vectors: Vectors) -> Iterable[dict[str, Any]]:
    for document, vector in zip(documents, vectors, strict=True):
        source = {
            "id": document.id,
            "text": document.text,
            "fields": document.fields,
            "filters": [_filter_term(*pair) for pair in document.fields.items()],
            "vector": vector.tolist(),
            # What searches return: exact, and a fifth of the size of the numbers in JSON.
            "vector_bytes": base64.b64encode(vector.astype("<f4").tobytes()).decode(),
        }
        yield {"_index": index, "_id": document.id, "_source": source}


def _searches(
    query: str, vector: Vectors, prior: Mapping[str, float], n: int, filter: Mapping[str, str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two searches of a query; see the top of this file."""
    text = query.encode("utf-8", "replace").decode()
    words = tokens(text)
    lexical = {"match": {"text": {"query": text if len(words) <= _MAX_TERMS else " ".join(words[:_MAX_TERMS])}}}
    within = [{"term": {"filters": _filter_term(*pair)}} for pair in (filter or {}).items()]
    near = {
        "knn": {
            "field": "vector",
            "query_vector": vector.tolist(),
            "k": n,
            "num_candidates": min(max(2 * n, 200), _MAX_NEIGHBOURS),
            **({"filter": within} if within else {}),
        }
    }
    candidates = {"bool": {"should": [near, *([{"ids": {"values": sorted(prior)}}] if prior else [])]}}
    common = {
        "_source": ["vector_bytes"],
        "sort": [{"_score": "desc"}, {"id": "asc"}],
        "track_total_hits": False,
    }
    return (
        {"query": {"bool": {"must": [lexical], "filter": within}}, "size": n, **common},
        {
            "query": {"bool": {"should": [lexical], "filter": [candidates, *within]}},
            "size": n + len(prior),
            **common,
        },
    )


def _filter_term(key: str, value: str) -> str:
    """A field value as one keyword, so that field names need no mapping of their own."""
    return json.dumps([key, value], ensure_ascii=False)


def _decode(text: str) -> Vectors:
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def _checked_vectors(documents: Sequence[Document], vectors: Vectors) -> Vectors:
    """The vectors; Elasticsearch has no cosine for a zero vector. Raises InputError for one."""
    zero = ~vectors.any(axis=1)
    if zero.any():
        raise InputError(f"document {documents[int(zero.argmax())].id!r}: its embedding is zero")
    return vectors


def _bulk(client: "Elasticsearch", actions: Iterable[dict[str, Any]]) -> None:
    """Send `actions` in chunks, waiting longer whenever the server is busy. Deleting what is not there is no error.

    Raises:
        InputError: documents were refused, the first of which are named, or the server fails.
    """
    from elasticsearch import helpers

    failed: list[str] = []

    def send() -> None:
        results = helpers.streaming_bulk(
            client,
            actions,
            chunk_size=_BULK_ACTIONS,
            max_chunk_bytes=_BULK_BYTES,
            max_retries=_BULK_RETRIES,
            raise_on_error=False,
        )
        for done, result in results:
            ((operation, answer),) = result.items()
            if not done and not (operation == "delete" and answer.get("status") == 404):
                failed.append(f"{answer.get('_id')!r}: {reason(answer.get('error') or answer)}")

    request(send, retry=False)
    if failed:
        shown = "; ".join(failed[:_SHOWN_ERRORS])
        raise InputError(f"the server refused {len(failed)} documents: {shown}")


def _versions(client: "Elasticsearch", alias: str) -> list[str]:
    """Indices that were built for `alias`: behind it, or left by a build that was killed."""
    found = request(client.indices.get_mapping, index=f"{alias}-*")
    made_for = {name: body["mappings"].get("_meta", {}).get(_META, {}).get("alias") for name, body in found.items()}
    return [name for name, owner in made_for.items() if owner == alias]
