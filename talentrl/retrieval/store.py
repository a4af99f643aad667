"""The SQLite file of the embedded back end: rows, a full-text index and vectors, changed in one transaction.

A process killed while it writes leaves the file as it was before. BM25 is FTS5's, over tokens that are
lower-cased, stripped of accents and stemmed by Porter's algorithm. Posting lists made with the index answer in its
place as long as nothing has changed (`talentrl.retrieval.postings`).
"""

import json
import sqlite3
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from talentrl.errors import InputError
from talentrl.files import atomic_path
from talentrl.retrieval import neighbours, postings
from talentrl.retrieval.encoder import Encoder, Vectors
from talentrl.retrieval.index import Document

FORMAT = 3
_LOCK_SECONDS = 30.0
_SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, changed INTEGER NOT NULL, fields TEXT NOT NULL,
    vector BLOB NOT NULL);
CREATE INDEX changes ON documents (changed);
CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = '{postings.TOKENIZE}');
{postings.SCHEMA}"""


@dataclass(frozen=True)
class Snapshot:
    """What is searched exactly at one version of the index: all documents, or those that its graph does not hold.

    `rows`, in order of id, has shape (documents,), `vectors` (documents, dimension).
    """

    version: int
    rows: list[int]
    vectors: Vectors
    graph: neighbours.Graph | None
    """Of all other documents."""


class Store:
    """One open file. Several processes may read it at once; within a process, each thread opens its own."""

    def __init__(self, file: Path, encoder: Encoder) -> None:
        """Open `file`.

        Raises:
            InputError: it is missing or broken, or holds vectors of another encoder.
        """
        if not file.is_file():
            raise InputError(f"{file}: no such index; rerun the index stage")
        self._file = file
        self._db = _connect(file)
        self._dimension = encoder.dimension
        self._graph: neighbours.Graph | None = None
        self._postings: tuple[int, postings.Postings] | None = None
        self._common: tuple[int, dict[str, bool]] = (-1, {})
        try:
            self._check(encoder)
        except InputError:
            self._db.close()
            raise

    @classmethod
    def create(cls, file: Path, documents: Sequence[Document], vectors: Vectors, encoder: Encoder) -> None:
        """Write a new file of `documents`, whole or not at all, in place of one that may stand there."""
        meta = {
            "format": FORMAT,
            "encoder": encoder.fingerprint,
            "dimension": encoder.dimension,
            "version": 0,
            "graph": "",  # file name of the graph of neighbours,
            "graph_rows": 0,  # how many rows it holds,
            "graph_version": -1,  # and the version that it was made of
            "postings_version": 0,  # the version that the posting lists are of
        }
        with atomic_path(file) as temporary:
            with closing(_connect(temporary)) as db:
                db.executescript(_SCHEMA)
                db.execute("BEGIN")
                db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                _insert(db, documents, vectors, 0)
                postings.write_postings(db)
                db.execute("COMMIT")
            _settle(file)
        neighbours.remove_graphs(file.parent, keep="")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def transaction(self, write: bool = False) -> Iterator[None]:
        """All reads in the block see one version; all writes happen, or none does.

        Raises:
            InputError: SQLite refuses (damaged, read-only or locked file).
        """
        try:
            self._db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield
            if write:
                self._db.execute("UPDATE meta SET value = value + 1 WHERE key = 'version'")
            self._db.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self._file}: cannot use this index ({error}); rerun the index stage") from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def upsert(self, documents: Sequence[Document], vectors: Vectors) -> None:
        """Add or replace documents, in one transaction; a replaced one keeps its row."""
        with self.transaction(write=True):
            _insert(self._db, documents, vectors, self._number("version") + 1)

    def delete(self, ids: Iterable[str]) -> None:
        """Remove documents in one transaction; unknown ids are ignored."""
        keys = [(id,) for id in ids]
        with self.transaction(write=True):
            self._db.executemany("DELETE FROM texts WHERE rowid = (SELECT row FROM documents WHERE id = ?)", keys)
            self._db.executemany("DELETE FROM documents WHERE id = ?", keys)

    def count(self) -> int:
        """Number of documents."""
        with self.transaction():
            return self._count()

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """Those of the documents `ids` that are there, by id."""
        sql = "SELECT id, text, fields FROM documents JOIN texts ON texts.rowid = row WHERE id = ?"
        with self.transaction():
            found = [self._db.execute(sql, (id,)).fetchone() for id in ids]
        return {row[0]: Document(row[0], row[1], json.loads(row[2])) for row in found if row}

    def snapshot(self, known: Snapshot | None) -> Snapshot:
        """Rows and vectors now; `known` itself when nothing changed since. Call it inside a transaction."""
        version = self._number("version")
        if known is not None and known.version == version:
            return known
        graph = self._open_graph(self._text("graph"))
        rows, vectors = self._vectors(self._number("graph_version") if graph else -1, "id")
        return Snapshot(version, rows, vectors, graph)

    def candidates(self, rows: Collection[int]) -> tuple[list[int], list[str], Vectors]:
        """Rows, ids and vectors (rows, dimension) of `rows`, in order of id."""
        found = self._db.execute(
            "SELECT row, id, vector FROM documents WHERE row IN (SELECT value FROM json_each(?)) ORDER BY id",
            (_array(rows),),
        ).fetchall()
        vectors = np.frombuffer(b"".join(row[2] for row in found), dtype=np.float32)
        return (
            [row[0] for row in found],
            [row[1] for row in found],
            vectors.reshape(len(found), self._dimension),
        )

    def rows_of(self, ids: Collection[str]) -> dict[str, int]:
        """The row of each of `ids` that is there."""
        sql = "SELECT id, row FROM documents WHERE id IN (SELECT value FROM json_each(?))"
        return dict(self._db.execute(sql, (json.dumps(list(ids)),)))

    def unchanged(self, rows: Collection[int]) -> set[int]:
        """Those of `rows` that are as the graph knows them."""
        sql = "SELECT row FROM documents WHERE row IN (SELECT value FROM json_each(?)) AND changed <= ?"
        return {row for (row,) in self._db.execute(sql, (_array(rows), self._number("graph_version")))}

    def renew(self) -> None:
        """Make the graph of neighbours anew if it is lost or too much changed since, or drop it if it is not needed.

        The posting lists are renewed with it. A process killed meanwhile leaves the old ones in use. While the graph
        is made, the index can be read and written.
        """
        with self.transaction():
            version, documents = self._number("version"), self._count()
            graph = self._open_graph(self._text("graph"))
            newer = self._count("WHERE changed > ?", self._number("graph_version")) if graph else documents
            behind = newer + (self._number("graph_rows") - (documents - newer) if graph else 0)
            if behind <= neighbours.EXACT:
                return
            few = documents <= neighbours.EXACT
            rows, vectors = ([], None) if few else self._vectors(-1, "row")
        name = "" if vectors is None else neighbours.Graph.build(self._file.parent, rows, vectors)
        meta = [(name, "graph"), (len(rows), "graph_rows"), (-1 if few else version, "graph_version")]
        with self.transaction(write=True):
            now = self._number("version")
            if self._number("postings_version") != now:
                postings.write_postings(self._db)
            meta.append((now + 1, "postings_version"))
            self._db.executemany("UPDATE meta SET value = ? WHERE key = ?", meta)
        neighbours.remove_graphs(self._file.parent, keep=name)

    def rows_with(self, filter: Mapping[str, str]) -> list[int]:
        """Rows of the documents that have all these field values."""
        one = "EXISTS (SELECT 1 FROM json_each(fields) WHERE key = ? AND json_each.value = ?)"
        where = " AND ".join([one] * len(filter))
        values = [text for pair in filter.items() for text in pair]
        return [row[0] for row in self._db.execute(f"SELECT row FROM documents WHERE {where}", values)]

    def bm25(
        self, query: str, wanted: Collection[int], best: int, within: Collection[int] | None = None
    ) -> dict[int, float]:
        """BM25 by row for the `best` top documents and for every row of `wanted` that matches a term.

        Only rows in `within` count, if given. Documents of equal BM25 at the cut are taken in order of row,
        which after a build is order of id. A term in more than half of the documents, whose inverse document
        frequency is at its floor, counts only if no other term matches.
        """
        words = tokens(query)
        lists = self._current_postings()
        terms = lists.terms(words) if lists else None
        if lists and terms is not None:
            few = [term for term, documents in terms if documents <= lists.documents // 2]
            found = lists.bm25(few, wanted, best, within)
            return found or lists.bm25([term for term, _ in terms], wanted, best, within)
        rare = [word for word in words if not self._is_common(word)]
        return self._matches(rare, wanted, best, within) or self._matches(words, wanted, best, within)

    def _matches(
        self, words: Sequence[str], wanted: Collection[int], best: int, within: Collection[int] | None
    ) -> dict[int, float]:
        terms = " OR ".join(f'"{word}"' for word in words)
        if not terms:
            return {}
        # One pass scores all matches; with the wanted rows in front, one limit gets both sets. The plus sign
        # keeps SQLite from running the full-text query anew for each row of the filter.
        found = self._db.execute(
            """SELECT rowid, -rank FROM texts
            WHERE texts MATCH ? AND (? IS NULL OR +rowid IN (SELECT value FROM json_each(?)))
            ORDER BY rowid IN (SELECT value FROM json_each(?)) DESC, rank, rowid LIMIT ?""",
            (terms, *[_array(within)] * 2, _array(wanted), best + len(wanted)),
        ).fetchall()
        top = {row for row, _ in sorted(found, key=lambda pair: (-pair[1], pair[0]))[:best]}
        return {row: score for row, score in found if row in top or row in wanted}

    def _current_postings(self) -> postings.Postings | None:
        """The posting lists; None if the texts have changed since they were made."""
        version = self._number("version")
        if self._number("postings_version") != version:
            return None
        if self._postings is None or self._postings[0] != version:
            self._postings = version, postings.Postings(self._db)
        return self._postings[1]

    def _is_common(self, word: str) -> bool:
        """Whether more than half of the documents have `word`. Scoring them would take most of a search's time."""
        version = self._number("version")
        if self._common[0] != version:
            self._common = version, {}
        common = self._common[1]
        if word not in common:
            half = self._count() // 2
            sql = "SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH ? LIMIT ?)"
            common[word] = self._db.execute(sql, (f'"{word}"', half + 1)).fetchone()[0] > half
        return common[word]

    def _open_graph(self, name: str) -> neighbours.Graph | None:
        """The graph in the file `name`; None if there is none, or it is lost: then everything is searched exactly."""
        if self._graph is None or self._graph.file.name != name:
            try:
                self._graph = neighbours.Graph(self._file.with_name(name)) if name else None
            except OSError:
                self._graph = None
        return self._graph

    def _number(self, key: str) -> int:
        return int(self._text(key))

    def _text(self, key: str) -> str:
        return str(self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])

    def _count(self, where: str = "", *values: int) -> int:
        number: int = self._db.execute(f"SELECT count(*) FROM documents {where}", values).fetchone()[0]
        return number

    def _vectors(self, since: int, order: str) -> tuple[list[int], Vectors]:
        """Rows that changed after version `since`, and their vectors; `order` is a column."""
        vectors = np.empty((self._count("WHERE changed > ?", since), self._dimension), dtype=np.float32)
        rows = []
        sql = f"SELECT row, vector FROM documents WHERE changed > ? ORDER BY {order}"
        for place, (row, vector) in enumerate(self._db.execute(sql, (since,))):
            rows.append(row)
            vectors[place] = np.frombuffer(vector, dtype=np.float32)
        return rows, vectors

    def _check(self, encoder: Encoder) -> None:
        """Refuse a file of another format or encoder."""
        with self.transaction():
            found = dict(self._db.execute("SELECT key, value FROM meta").fetchall())
        expected = {"format": FORMAT, "encoder": encoder.fingerprint, "dimension": encoder.dimension}
        for key, value in expected.items():
            if found.get(key) != value:
                raise InputError(
                    f"{self._file}: found {key} {found.get(key)!r}, expected {value!r}; rerun the index stage"
                )


def tokens(query: str) -> list[str]:
    """The distinct words of a query: runs of letters, digits and combining marks, as for unicode61."""
    kept = (char if char.isalnum() or unicodedata.category(char)[0] == "M" else " " for char in query)
    return list(dict.fromkeys("".join(kept).lower().split()))


def _connect(file: Path) -> sqlite3.Connection:
    # Without an isolation level, Python begins no transactions of its own.
    return sqlite3.connect(file, timeout=_LOCK_SECONDS, isolation_level=None)


def _insert(db: sqlite3.Connection, documents: Sequence[Document], vectors: Vectors, version: int) -> None:
    for document, vector in zip(documents, vectors, strict=True):
        fields = json.dumps(document.fields, sort_keys=True)
        row = db.execute(
            """INSERT INTO documents (id, changed, fields, vector) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
            SET changed = excluded.changed, fields = excluded.fields, vector = excluded.vector RETURNING row""",
            (document.id, version, fields, vector.astype(np.float32).tobytes()),
        ).fetchone()[0]
        db.execute("INSERT OR REPLACE INTO texts (rowid, text) VALUES (?, ?)", (row, document.text))


def _array(rows: Collection[int] | None) -> str | None:
    return None if rows is None else json.dumps(list(rows))


def _settle(file: Path) -> None:
    """Finish what a killed writer left behind, before another file takes the name of `file`.

    SQLite would otherwise replay the old file's journal into the new one.
    """
    if not file.exists():
        return
    try:
        with closing(_connect(file)) as db:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError:
        # Not a database: there is nothing in it to save.
        file.with_name(f"{file.name}-journal").unlink(missing_ok=True)
