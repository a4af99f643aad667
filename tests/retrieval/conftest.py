import itertools
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from talentrl.retrieval.embedded import EmbeddedIndex
from talentrl.retrieval.index import Document, HybridIndex

Build = Callable[..., HybridIndex]


class HashingEncoder:
    """Counts of hashed words, normalised: cheap, deterministic, independent of the batch."""

    dimension = 16

    def __init__(self, fingerprint: str = "hashing-1") -> None:
        self.fingerprint = fingerprint
        self.encoded: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.encoded.append(list(texts))
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[0] = 0.1
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % self.dimension] += 1
            row /= np.linalg.norm(row)
        return vectors


@pytest.fixture
def encoder() -> HashingEncoder:
    return HashingEncoder()


@pytest.fixture(scope="session", params=["embedded"])
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Makes an index of the back end under test; every back end must pass the same contract."""
    numbers = itertools.count()
    folder = tmp_path_factory.mktemp(request.param)

    def embedded(documents: Sequence[Document], **settings: object) -> HybridIndex:
        return EmbeddedIndex.build(folder / str(next(numbers)), documents, HashingEncoder(), **settings)  # type: ignore[arg-type]

    return {"embedded": embedded}[request.param]
