"""Nearest neighbours of the embedded back end: exact up to `EXACT` vectors, beyond that an HNSW graph in a file.

A graph (Malkov & Yashunin 2018, in the library usearch) is a memory-mapped file beside the SQLite file, named by its
content. The SQLite file says which graph is its own and what has changed since, so a graph that is missing or behind
costs time and no hit: rows that it does not hold are searched exactly.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from talentrl.files import atomic_path, sha256
from talentrl.retrieval.encoder import Vectors
from talentrl.retrieval.fusion import DECIMALS

EXACT = 50_000
"""Vectors that are searched exactly: some ten milliseconds of one core at 384 dimensions."""
_PATTERN = "neighbours-*.usearch"
_CONNECTIVITY, _EXPANSION_ADD, _EXPANSION_SEARCH = 16, 128, 256


class Graph:
    """An HNSW graph over rows of the SQLite file."""

    def __init__(self, file: Path) -> None:
        """Map `file` into memory. Raises OSError if it is missing or no graph."""
        from usearch.index import Index

        try:
            index = Index.restore(str(file), view=True, expansion_search=_EXPANSION_SEARCH)
        except (RuntimeError, ValueError) as error:
            raise OSError(f"{file}: not a graph ({error})") from error
        if index is None:
            raise FileNotFoundError(file)
        self.file = file
        self._index = index

    @staticmethod
    def build(folder: Path, rows: Sequence[int], vectors: Vectors) -> str:
        """Write the graph of unit `vectors` (rows, dimension) to `folder`, whole or not at all; return its name.

        One thread, so that the same vectors give the same file. Vectors are kept as 16-bit floats: whoever uses the
        neighbours scores them anew from the exact ones.
        """
        from usearch.index import Index

        index = Index(
            ndim=vectors.shape[1],
            metric="ip",
            dtype="f16",
            connectivity=_CONNECTIVITY,
            expansion_add=_EXPANSION_ADD,
        )
        keys = np.asarray(rows, dtype=np.uint64)
        index.add(keys, vectors, threads=1, log="neighbours")
        name = _PATTERN.replace("*", sha256(keys.tobytes() + vectors.tobytes())[:16])
        with atomic_path(folder / name) as temporary:
            index.save(str(temporary))
        return name

    def nearest(self, vector: Vectors, n: int, passing: Callable[[Sequence[int]], Collection[int]]) -> list[int]:
        """The `n` rows nearest to `vector`, best first, of those that `passing` lets through."""
        seen, count = 0, n
        while True:
            rows: list[int] = self._index.search(vector, count).keys.tolist()
            kept = passing(rows)
            if len(kept) >= n or len(rows) == seen:  # enough, or no more to be found
                return [row for row in rows if row in kept][:n]
            seen, count = len(rows), 2 * count


def remove_graphs(folder: Path, keep: str) -> None:
    """Remove the graphs in `folder` but `keep`. Those who have one mapped keep it."""
    for file in folder.glob(_PATTERN):
        if file.name != keep:
            file.unlink(missing_ok=True)


def top(cosine: NDArray[np.floating], n: int) -> list[int]:
    """Positions of the `n` largest cosines, ties in order of position; −inf never counts."""
    rounded = np.round(cosine, DECIMALS)
    n = min(n, int(np.isfinite(rounded).sum()))
    if n == 0:
        return []
    threshold = np.partition(rounded, len(rounded) - n)[len(rounded) - n]
    near = np.flatnonzero(rounded >= threshold)
    chosen: list[int] = near[np.argsort(-rounded[near], kind="stable")[:n]].tolist()
    return chosen
