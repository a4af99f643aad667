"""Posting lists of the full-text index: BM25 for many matches at once.

FTS5 scores its matches one by one, which takes most of a search among many documents. So a table of the SQLite
file holds, for each term, the rows that have it and how often, made with the index. It speaks of one version of the
texts: while nothing has changed since, numpy scores whole lists; after a change FTS5 answers, with the same scores,
until the lists are made anew.

    BM25(q, d) = Σ_t max(ln((N − n_t + ½) / (n_t + ½)), 10⁻⁶) · f_td (k1 + 1) / (f_td + k1 (1 − b + b |d| / mean |d|))

with N documents, n_t of which have term t, and f_td occurrences in d: FTS5's formula (https://sqlite.org/fts5.html).
"""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

K1, B, FLOOR = 1.2, 0.75, 1e-6
TOKENIZE = "porter unicode61"
SCHEMA = """
CREATE TABLE postings (term TEXT PRIMARY KEY, documents INTEGER NOT NULL, rows BLOB NOT NULL, counts BLOB NOT NULL);
"""
# The empty term stands for the documents themselves: every one has it, as often as it has terms.
_DOCUMENTS = ""


class Postings:
    """The posting lists of the open file `db`, as long as its texts are those that `write_postings` saw."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Read the lengths of all documents."""
        self._db = db
        self._splitter = WordSplitter()
        rows, lengths = self._lists([_DOCUMENTS])[0]
        self.documents = len(rows)
        relative = B * lengths / lengths.mean() if lengths.any() else lengths  # a text may have no term
        self._norms = np.zeros(int(rows.max(initial=0)) + 1)
        self._norms[rows] = K1 * (1 - B + relative)

    def terms(self, words: Sequence[str]) -> list[tuple[str, int]] | None:
        """The indexed terms of `words`, each with its number of documents; None if a word is several terms to FTS5."""
        split = self._splitter.split(words)
        if any(len(terms) > 1 for terms in split):
            return None
        sql = "SELECT term, documents FROM postings WHERE term = ?"
        found = [self._db.execute(sql, terms).fetchone() for terms in split if terms]
        return [row for row in found if row]

    def bm25(
        self, terms: Collection[str], wanted: Collection[int], best: int, within: Collection[int] | None
    ) -> dict[int, float]:
        """See `Store.bm25`."""
        scores = np.zeros(len(self._norms))
        for rows, counts in self._lists(terms):
            share = np.log((self.documents - len(rows) + 0.5) / (len(rows) + 0.5))
            scores[rows] += max(share, FLOOR) * (counts * (K1 + 1) / (counts + self._norms[rows]))
        if within is not None:
            allowed = np.zeros(len(scores), dtype=bool)
            allowed[list(within)] = True
            scores[~allowed] = 0
        kept = np.concatenate([_top(scores, best), [row for row in wanted if scores[row] > 0]]).astype(np.intp)
        return dict(zip(kept.tolist(), scores[kept].tolist(), strict=True))

    def _lists(self, terms: Collection[str]) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Rows and counts of each term."""
        sql = "SELECT rows, counts FROM postings WHERE term = ?"
        found = [self._db.execute(sql, (term,)).fetchone() for term in terms]
        return [(np.frombuffer(rows, np.int32), np.frombuffer(counts, np.int32)) for rows, counts in found]


def write_postings(db: sqlite3.Connection) -> None:
    """Make the lists of the table `texts` anew, inside the caller's transaction."""
    db.execute("DELETE FROM postings")
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab(main, texts, instance)")
    documents = np.array([row for (row,) in db.execute("SELECT rowid FROM texts")], dtype=np.int32)
    lengths = np.zeros(int(documents.max(initial=0)) + 1, dtype=np.int32)

    def lists() -> Iterator[tuple[str, int, bytes, bytes]]:
        # In order of term, then row.
        instances = db.execute("SELECT term, doc FROM temp.instances")
        for term, group in groupby(instances, key=itemgetter(0)):
            rows, counts = np.unique(np.fromiter((row for _, row in group), np.int32), return_counts=True)
            lengths[rows] += counts.astype(np.int32)
            yield term, len(rows), rows.tobytes(), counts.astype(np.int32).tobytes()

    sql = "INSERT INTO postings VALUES (?, ?, ?, ?)"
    db.executemany(sql, lists())
    db.execute(sql, (_DOCUMENTS, len(documents), documents.tobytes(), lengths[documents].tobytes()))


class WordSplitter:
    """FTS5's tokeniser: words to the terms that it indexes."""

    def __init__(self) -> None:
        """Open a full-text table in memory, through which the words go."""
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.execute(f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize = '{TOKENIZE}')")
        self._db.execute("CREATE VIRTUAL TABLE instances USING fts5vocab(words, instance)")

    def split(self, words: Sequence[str]) -> list[list[str]]:
        """The terms of each word: mostly one; none where FTS5 sees no letter."""
        terms: list[list[str]] = [[] for _ in words]
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO words (rowid, word) VALUES (?, ?)", enumerate(words))
        for place, term in self._db.execute('SELECT doc, term FROM instances ORDER BY doc, "offset"'):
            terms[place].append(term)
        self._db.execute("ROLLBACK")
        return terms


def _top(scores: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Places of the `n` largest scores above 0, of equal ones the first."""
    places = np.flatnonzero(scores > 0)  # of truth values, which numpy counts much faster
    if len(places) > n:
        found = scores[places]
        places = places[found >= np.partition(found, len(found) - n)[len(found) - n]]
    return places[np.argsort(-scores[places], kind="stable")[:n]]
