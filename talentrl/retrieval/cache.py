"""An encoder that remembers: vectors on disk, by encoder fingerprint and text digest.

A rebuilt index embeds only texts that no earlier build embedded with the same weights. The file is only a cache:
deleting it costs time and nothing else. It is never trimmed; a vector of 384 dimensions takes some 2 kB.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
from tqdm import tqdm

from talentrl.errors import InputError
from talentrl.retrieval.encoder import Encoder, Vectors

_CHUNK = 256  # texts encoded, then saved: what a kill can lose
_LOCK_SECONDS = 30.0
_SCHEMA = """CREATE TABLE IF NOT EXISTS vectors (
    encoder TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (encoder, digest))"""


class CachedEncoder(Encoder):
    """`encoder` with its vectors kept in a SQLite file. Several processes may share the file."""

    def __init__(self, encoder: Encoder, file: Path) -> None:
        """Keep vectors of `encoder` in `file`, which the first use makes."""
        self._encoder = encoder
        self._file = file

    @property
    def dimension(self) -> int:
        """See `Encoder.dimension`."""
        return self._encoder.dimension

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`: a cached vector is as good as a new one."""
        return self._encoder.fingerprint

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.encode_queries`. Queries are not kept."""
        return self._encoder.encode_queries(texts)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.encode`. Vectors are saved as they are made, so a killed call resumes where it was.

        Raises:
            InputError: the file cannot be used (no database, damaged, read-only, locked).
        """
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        text_of = dict(zip(digests, texts, strict=True))
        with self._database() as db:
            found = {digest: vector for digest in text_of if (vector := self._read(db, digest)) is not None}
            new = [digest for digest in text_of if digest not in found]
            with tqdm(total=len(new), desc="encoding", unit="text", delay=2, disable=not new) as progress:
                for start in range(0, len(new), _CHUNK):
                    chunk = new[start : start + _CHUNK]
                    vectors = self._encoder.encode([text_of[digest] for digest in chunk])
                    self._write(db, chunk, vectors)
                    found.update(zip(chunk, vectors, strict=True))
                    progress.update(len(chunk))
        vectors = np.array([found[digest] for digest in digests], dtype=np.float32)
        return vectors.reshape(len(texts), self.dimension)

    def _read(self, db: sqlite3.Connection, digest: bytes) -> Vectors | None:
        sql = "SELECT vector FROM vectors WHERE encoder = ? AND digest = ?"
        row = db.execute(sql, (self.fingerprint, digest)).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype="<f4")

    def _write(self, db: sqlite3.Connection, digests: Sequence[bytes], vectors: Vectors) -> None:
        rows = [
            (self.fingerprint, digest, vector.astype("<f4").tobytes())
            for digest, vector in zip(digests, vectors, strict=True)
            if np.isfinite(vector).all()  # a fault must not outlive its cause
        ]
        with db:
            db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        with suppress(OSError):  # SQLite then says that it cannot open the file
            self._file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self._file, timeout=_LOCK_SECONDS)) as db:
                db.execute(_SCHEMA)
                yield db
        except sqlite3.Error as error:
            raise InputError(f"{self._file}: cannot use this embedding cache ({error}); delete the file") from error
