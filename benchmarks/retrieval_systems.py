"""What `benchmarks.retrieval` compares: our embedded index and the common ways to get the same search.

Each system makes an index in a folder and answers from it in a fresh process. All are given the same vectors, so no
time goes into an encoder. Peers that leave the fusion to their user get reciprocal-rank fusion of two lists of 50.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from talentrl.retrieval.embedded import EmbeddedIndex
from talentrl.retrieval.index import Document

Vectors = NDArray[np.float32]
FIRST_CUT = 50


class System(Protocol):
    """One way to search; the constructor opens what `build` made."""

    def __init__(self, folder: Path, queries: Vectors) -> None: ...

    @staticmethod
    def build(folder: Path, texts: Sequence[str], vectors: Vectors) -> None:
        """Index the texts, which are called by their position."""

    def search(self, texts: Sequence[str], rows: Sequence[int], k: int) -> list[list[int]]:
        """Hybrid search: the best `k` documents of each query; `rows` are the places of the queries' vectors."""

    def near(self, row: int, k: int) -> list[int]:
        """The `k` nearest by vector alone, to measure recall."""


def fused(first: Sequence[int], second: Sequence[int], k: int) -> list[int]:
    """Reciprocal-rank fusion of two lists."""
    scores: dict[int, float] = {}
    for found in (first, second):
        for rank, document in enumerate(found, 1):
            scores[document] = scores.get(document, 0.0) + 1 / (60 + rank)
    return sorted(scores, key=lambda document: -scores[document])[:k]


class _GivenVectors:
    """An encoder whose texts end in the number of their vector."""

    fingerprint = "given-1"

    def __init__(self, documents: Vectors, queries: Vectors) -> None:
        self.dimension = documents.shape[1]
        self._documents, self._queries = documents, queries

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self._documents[[int(text.rpartition(" ")[2]) for text in texts]]

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._queries[[int(text.rpartition(" ")[2]) for text in texts]]


class Ours:
    """`EmbeddedIndex`: SQLite's FTS5, and exact or (beyond 50,000 documents) HNSW neighbours."""

    def __init__(self, folder: Path, queries: Vectors) -> None:
        self._index = EmbeddedIndex(folder, _GivenVectors(queries, queries))
        self._queries = queries

    @staticmethod
    def build(folder: Path, texts: Sequence[str], vectors: Vectors) -> None:
        documents = (Document(str(number), f"{text} {number}") for number, text in enumerate(texts))
        EmbeddedIndex.build(folder, documents, _GivenVectors(vectors, vectors)).close()

    def search(self, texts: Sequence[str], rows: Sequence[int], k: int) -> list[list[int]]:
        queries = [f"{text} {row}" for text, row in zip(texts, rows, strict=True)]
        return [[int(hit.id) for hit in hits] for hits in self._index.search_many(queries, k)]

    def near(self, row: int, k: int) -> list[int]:
        with self._index._store.transaction():
            rows = self._index._nearest(self._queries[[row]], FIRST_CUT, None)[0]
            _, ids, vectors = self._index._store.candidates(rows)
        best = np.argsort(-(vectors @ self._queries[row]))[:k]
        return [int(ids[place]) for place in best]


class Bm25sNumpy:
    """bm25s, and all cosines by numpy."""

    def __init__(self, folder: Path, queries: Vectors) -> None:
        import bm25s

        self._tokenize = bm25s.tokenize
        self._bm25 = bm25s.BM25.load(folder / "bm25s", mmap=True)
        self._vectors, self._queries = np.load(folder / "vectors.npy"), queries

    @staticmethod
    def build(folder: Path, texts: Sequence[str], vectors: Vectors) -> None:
        import bm25s

        bm25 = bm25s.BM25()
        bm25.index(bm25s.tokenize(list(texts), show_progress=False), show_progress=False)
        bm25.save(folder / "bm25s")
        np.save(folder / "vectors.npy", vectors)

    def search(self, texts: Sequence[str], rows: Sequence[int], k: int) -> list[list[int]]:
        words = self._tokenize(list(texts), return_ids=False, show_progress=False)
        lexical = self._bm25.retrieve(words, k=FIRST_CUT, show_progress=False).documents.tolist()
        return [fused(found, self.near(row, FIRST_CUT), k) for found, row in zip(lexical, rows, strict=True)]

    def near(self, row: int, k: int) -> list[int]:
        cosines = self._vectors @ self._queries[row]
        best = np.argpartition(-cosines, k)[:k]
        return best[np.argsort(-cosines[best])].tolist()


class TantivyUsearch:
    """tantivy for text and an HNSW graph of usearch for vectors, two stores that nothing keeps together."""

    def __init__(self, folder: Path, queries: Vectors) -> None:
        import tantivy
        from usearch.index import Index

        self._index = tantivy.Index.open(str(folder / "tantivy"))
        self._searcher = self._index.searcher()
        self._graph = Index.restore(str(folder / "graph"), view=True, expansion_search=128)
        self._queries = queries

    @staticmethod
    def build(folder: Path, texts: Sequence[str], vectors: Vectors) -> None:
        import tantivy
        from usearch.index import Index

        (folder / "tantivy").mkdir()
        schema = tantivy.SchemaBuilder()
        schema.add_unsigned_field("number", stored=True)
        schema.add_text_field("text", tokenizer_name="en_stem")
        writer = tantivy.Index(schema.build(), path=str(folder / "tantivy")).writer(num_threads=1)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(number=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        graph = Index(ndim=vectors.shape[1], metric="ip", dtype="f16", connectivity=16, expansion_add=128)
        graph.add(np.arange(len(vectors), dtype=np.uint64), vectors, threads=1)
        graph.save(str(folder / "graph"))

    def search(self, texts: Sequence[str], rows: Sequence[int], k: int) -> list[list[int]]:
        return [fused(self._match(text), self.near(row, FIRST_CUT), k) for text, row in zip(texts, rows, strict=True)]

    def near(self, row: int, k: int) -> list[int]:
        return self._graph.search(self._queries[row], k).keys.tolist()

    def _match(self, text: str) -> list[int]:
        found = self._searcher.search(self._index.parse_query(text, ["text"]), FIRST_CUT).hits
        return [self._searcher.doc(address)["number"][0] for _, address in found]


class LanceDB:
    """LanceDB: its own full-text index, vector index and hybrid query."""

    def __init__(self, folder: Path, queries: Vectors) -> None:
        os.environ["LANCE_LOG"] = "error"
        import lancedb
        from lancedb.rerankers import RRFReranker

        self._table = lancedb.connect(folder).open_table("documents")
        self._reranker, self._queries = RRFReranker(), queries

    @staticmethod
    def build(folder: Path, texts: Sequence[str], vectors: Vectors) -> None:
        import lancedb
        import pyarrow as pa

        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        rows = pa.table({"number": pa.array(range(len(texts))), "text": pa.array(texts), "vector": column})
        table = lancedb.connect(folder).create_table("documents", rows)
        table.create_fts_index("text")
        table.create_index(metric="cosine", index_type="IVF_HNSW_SQ")

    def search(self, texts: Sequence[str], rows: Sequence[int], k: int) -> list[list[int]]:
        return [self._numbers(self._hybrid(text, row), k) for text, row in zip(texts, rows, strict=True)]

    def near(self, row: int, k: int) -> list[int]:
        return self._numbers(self._table.search(self._queries[row]), k)

    def _hybrid(self, text: str, row: int) -> Any:
        return self._table.search(query_type="hybrid").vector(self._queries[row]).text(text).rerank(self._reranker)

    @staticmethod
    def _numbers(query: Any, k: int) -> list[int]:
        found = query.limit(FIRST_CUT).select(["number"]).to_arrow()
        return found["number"].to_pylist()[:k]


class SqliteVec:
    """One SQLite file with FTS5 and sqlite-vec, whose neighbours are exact."""

    def __init__(self, folder: Path, queries: Vectors) -> None:
        self._db, self._queries = _open_sqlite(folder), queries

    @staticmethod
    def build(folder: Path, texts: Sequence[str], vectors: Vectors) -> None:
        db = _open_sqlite(folder)
        width = vectors.shape[1]
        db.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')")
        db.execute(f"CREATE VIRTUAL TABLE vectors USING vec0(vector float[{width}] distance_metric=cosine)")
        with db:
            db.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
            pairs = ((number, vector.tobytes()) for number, vector in enumerate(vectors))
            db.executemany("INSERT INTO vectors (rowid, vector) VALUES (?, ?)", pairs)
        db.close()

    def search(self, texts: Sequence[str], rows: Sequence[int], k: int) -> list[list[int]]:
        return [fused(self._match(text), self.near(row, FIRST_CUT), k) for text, row in zip(texts, rows, strict=True)]

    def near(self, row: int, k: int) -> list[int]:
        sql = "SELECT rowid FROM vectors WHERE vector MATCH ? AND k = ? ORDER BY distance"
        return [number for (number,) in self._db.execute(sql, (self._queries[row].tobytes(), k))]

    def _match(self, text: str) -> list[int]:
        terms = " OR ".join(json.dumps(word) for word in text.split())
        sql = "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?"
        return [number for (number,) in self._db.execute(sql, (terms, FIRST_CUT))]


def _open_sqlite(folder: Path) -> Any:
    # Python's own sqlite3 often cannot load extensions.
    import apsw
    import sqlite_vec

    db = apsw.Connection(str(folder / "index.sqlite"))
    db.enable_load_extension(True)
    db.load_extension(sqlite_vec.loadable_path())
    return db


SYSTEMS: dict[str, type[System]] = {
    "ours, embedded": Ours,
    "bm25s + exact numpy": Bm25sNumpy,
    "tantivy + usearch": TantivyUsearch,
    "LanceDB": LanceDB,
    "FTS5 + sqlite-vec": SqliteVec,
}
