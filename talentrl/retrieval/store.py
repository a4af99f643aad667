"""The SQLite file of the embedded back end: rows, a full-text index and vectors, changed in one transaction.

A process killed while it writes leaves the file as it was before. BM25 is FTS5's (k1 = 1.2, b = 0.75, and an
inverse document frequency that does not fall below 1e-6), over tokens that are lower-cased, stripped of
accents and stemmed by Porter's algorithm.
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
from talentrl.retrieval.encoder import Encoder, Vectors
from talentrl.retrieval.index import Document

FORMAT = 1
_LOCK_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, fields TEXT NOT NULL, vector BLOB NOT NULL);
CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61');
"""


@dataclass(frozen=True)
class Snapshot:
    """Ids and vectors at one version of the index, in order of id.

    `rows` has shape (documents,), `vectors` (documents, dimension).
    """

    version: int
    ids: list[str]
    rows: list[int]
    vectors: Vectors
    position: dict[str, int]
    position_of_row: dict[int, int]


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
        }
        with atomic_path(file) as temporary:
            with closing(_connect(temporary)) as db:
                db.executescript(_SCHEMA)
                db.execute("BEGIN")
                db.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
                _insert(db, documents, vectors)
                db.execute("COMMIT")
            _settle(file)

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
            _insert(self._db, documents, vectors)

    def delete(self, ids: Iterable[str]) -> None:
        """Remove documents in one transaction; unknown ids are ignored."""
        keys = [(id,) for id in ids]
        with self.transaction(write=True):
            self._db.executemany("DELETE FROM texts WHERE rowid = (SELECT row FROM documents WHERE id = ?)", keys)
            self._db.executemany("DELETE FROM documents WHERE id = ?", keys)

    def count(self) -> int:
        """Number of documents."""
        with self.transaction():
            number: int = self._db.execute("SELECT count(*) FROM documents").fetchone()[0]
        return number

    def documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """Those of the documents `ids` that are there, by id."""
        sql = "SELECT id, text, fields FROM documents JOIN texts ON texts.rowid = row WHERE id = ?"
        with self.transaction():
            found = [self._db.execute(sql, (id,)).fetchone() for id in ids]
        return {row[0]: Document(row[0], row[1], json.loads(row[2])) for row in found if row}

    def snapshot(self, known: Snapshot | None) -> Snapshot:
        """Ids and vectors now; `known` itself when nothing changed since. Call it inside a transaction."""
        version: int = self._meta("version")
        if known is not None and known.version == version:
            return known
        found = self._db.execute("SELECT id, row, vector FROM documents ORDER BY id").fetchall()
        ids, rows = [row[0] for row in found], [row[1] for row in found]
        vectors = np.frombuffer(b"".join(row[2] for row in found), dtype=np.float32)
        return Snapshot(
            version,
            ids,
            rows,
            vectors.reshape(len(ids), self._meta("dimension")),
            {id: place for place, id in enumerate(ids)},
            {row: place for place, row in enumerate(rows)},
        )

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
        which after a build is order of id.
        """
        terms = " OR ".join(f'"{token}"' for token in tokens(query))
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

    def _meta(self, key: str) -> int:
        value: int = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0]
        return value

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


def _insert(db: sqlite3.Connection, documents: Sequence[Document], vectors: Vectors) -> None:
    for document, vector in zip(documents, vectors, strict=True):
        fields = json.dumps(document.fields, sort_keys=True)
        row = db.execute(
            """INSERT INTO documents (id, fields, vector) VALUES (?, ?, ?) ON CONFLICT (id)
            DO UPDATE SET fields = excluded.fields, vector = excluded.vector RETURNING row""",
            (document.id, fields, vector.astype(np.float32).tobytes()),
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
