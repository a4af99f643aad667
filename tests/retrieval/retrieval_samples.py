"""What tests of retrieval share."""

import os
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np


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

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode(texts)


def importing_tests() -> dict[str, str]:
    """The environment of a process that imports this folder's modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
