"""Indices with a graph of neighbours find what exact search finds, whatever happened to the graph."""

import signal
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from retrieval_samples import HashingEncoder, importing_tests

from talentrl.retrieval import neighbours
from talentrl.retrieval.embedded import FILE, EmbeddedIndex
from talentrl.retrieval.index import Document

WORDS = [f"{a}{b}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u")]
QUERIES = [" ".join(WORDS[(7 * i + 11 * j) % len(WORDS)] for j in range(3)) for i in range(20)]


class WordsEncoder(HashingEncoder):
    """The mean of random vectors, one a word: unlike counts of words, no two texts are equally far away."""

    dimension = 32

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        words = [
            [np.random.default_rng(zlib.crc32(w.encode())).normal(size=32) for w in text.split()] for text in texts
        ]
        vectors = np.array([np.mean(each, axis=0) for each in words], dtype=np.float32).reshape(len(texts), 32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def encoder() -> WordsEncoder:
    return WordsEncoder()


def documents(count: int, start: int = 0) -> list[Document]:
    """Texts of four words each; every third has the colour red."""
    draw = np.random.default_rng(start)
    return [
        Document(f"d{number:04}", " ".join(draw.choice(WORDS, 4)), {"colour": "red" if number % 3 == 0 else "blue"})
        for number in range(start, start + count)
    ]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "EXACT", 40)


def graphs(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != FILE)


def assert_as_exact(index: EmbeddedIndex, folder: Path, monkeypatch: pytest.MonkeyPatch, **search: object) -> None:
    """The hits of `index` are those of an exact index of the same documents.

    But for the score, which counts in deviations of all candidates: the last of them may differ.
    """
    found = index.search_many(QUERIES, 5, **search)  # type: ignore[arg-type]
    ids = [row[0] for row in index._store._db.execute("SELECT id FROM documents")]
    with monkeypatch.context() as patch:
        patch.setattr(neighbours, "EXACT", 10**9)
        exact = EmbeddedIndex.build(folder, index.documents(ids), WordsEncoder())
    assert graphs(folder) == []
    expected = exact.search_many(QUERIES, 5, **search)  # type: ignore[arg-type]
    parts = [
        [[(hit.id, hit.bm25, hit.dense, hit.prior) for hit in hits] for hits in many] for many in (found, expected)
    ]
    assert parts[0] == parts[1]


@pytest.mark.usefixtures("limit")
def test_graph_finds_what_exact_search_finds(tmp_path, encoder, monkeypatch):
    index = EmbeddedIndex.build(tmp_path / "graph", documents(300), encoder)
    assert len(graphs(tmp_path / "graph")) == 1
    assert_as_exact(index, tmp_path / "exact", monkeypatch)
    boosts = [{"d0007": 0.8, "d0120": 0.3}] * len(QUERIES)
    assert_as_exact(index, tmp_path / "exact", monkeypatch, boosts=boosts)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("colour", ["red", "blue"])
def test_filters_larger_and_smaller_than_the_limit(tmp_path, encoder, monkeypatch, colour):
    index = EmbeddedIndex.build(tmp_path / "graph", documents(100), encoder)  # 34 red, 66 blue
    assert_as_exact(index, tmp_path / "exact", monkeypatch, filter={"colour": colour})


@pytest.mark.usefixtures("limit")
def test_changes_since_the_graph_was_made_count(tmp_path, encoder, monkeypatch):
    index = EmbeddedIndex.build(tmp_path / "graph", documents(100), encoder)
    made = graphs(tmp_path / "graph")
    index.search("warm", 1)
    index.delete([document.id for document in documents(10)])
    replaced = [Document(f"d{number:04}", QUERIES[number % 20]) for number in range(20, 25)]
    index.upsert([*replaced, *documents(10, start=500)])
    assert graphs(tmp_path / "graph") == made
    assert_as_exact(index, tmp_path / "exact", monkeypatch)


@pytest.mark.usefixtures("limit")
def test_graph_is_made_anew_when_it_is_far_behind(tmp_path, encoder, monkeypatch):
    index = EmbeddedIndex.build(tmp_path / "graph", documents(30), encoder)
    assert graphs(tmp_path / "graph") == []
    reader = EmbeddedIndex(tmp_path / "graph", encoder)
    reader.search("warm", 1)
    index.upsert(documents(60, start=100))
    first = graphs(tmp_path / "graph")
    assert len(first) == 1
    index.upsert(documents(60, start=200))
    assert len(graphs(tmp_path / "graph")) == 1 and graphs(tmp_path / "graph") != first
    assert_as_exact(reader, tmp_path / "exact", monkeypatch)
    index.delete([document.id for document in documents(60, start=100) + documents(60, start=200)])
    assert graphs(tmp_path / "graph") == []
    assert_as_exact(reader, tmp_path / "exact", monkeypatch)


@pytest.mark.usefixtures("limit")
def test_same_documents_give_the_same_files(tmp_path, encoder):
    for name in ("one", "two"):
        EmbeddedIndex.build(tmp_path / name, documents(100), encoder).close()
    assert graphs(tmp_path / "one") == graphs(tmp_path / "two")
    for name in (FILE, *graphs(tmp_path / "one")):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"no graph")], ids=["lost", "broken"])
def test_an_index_without_its_graph_is_searched_exactly(tmp_path, encoder, monkeypatch, damage):
    EmbeddedIndex.build(tmp_path / "graph", documents(100), encoder).close()
    damage(tmp_path / "graph" / graphs(tmp_path / "graph")[0])
    index = EmbeddedIndex(tmp_path / "graph", encoder)
    assert_as_exact(index, tmp_path / "exact", monkeypatch)
    index.upsert(documents(1, start=900))  # makes it anew
    assert len(graphs(tmp_path / "graph")) == 1
    assert neighbours.Graph(tmp_path / "graph" / graphs(tmp_path / "graph")[0])
    assert_as_exact(index, tmp_path / "exact", monkeypatch)


@pytest.mark.usefixtures("limit")
def test_a_build_replaces_the_graph_and_those_who_have_the_old_index_open_keep_it(tmp_path, encoder):
    old = EmbeddedIndex.build(tmp_path, documents(100), encoder)
    before = old.search_many(QUERIES, 5)
    EmbeddedIndex.build(tmp_path, documents(100, start=500), encoder)
    assert len(graphs(tmp_path)) == 1
    assert old.search_many(QUERIES, 5) == before


KILLED = """
import os, signal, sys
from pathlib import Path
from test_neighbours import WordsEncoder, documents
from talentrl.retrieval import neighbours
from talentrl.retrieval.embedded import EmbeddedIndex

neighbours.EXACT = 40
neighbours.atomic_path = lambda path: os.kill(os.getpid(), signal.SIGKILL)
folder = Path(sys.argv[1])
if sys.argv[2] == "build":
    EmbeddedIndex.build(folder, documents(150), WordsEncoder())
else:
    EmbeddedIndex(folder, WordsEncoder()).upsert(documents(50, start=100))
"""


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("change", ["build", "upsert"])
def test_killed_while_it_makes_the_graph(tmp_path, encoder, monkeypatch, change):
    """The documents are in; they are searched exactly until the next change makes the graph."""
    EmbeddedIndex.build(tmp_path / "graph", documents(100), encoder).close()
    command = [sys.executable, "-c", KILLED, str(tmp_path / "graph"), change]
    assert subprocess.run(command, env=importing_tests(), check=False).returncode == -signal.SIGKILL
    index = EmbeddedIndex(tmp_path / "graph", encoder)
    assert index.count() == 150
    assert_as_exact(index, tmp_path / "exact", monkeypatch)
    index.upsert(documents(1, start=900))
    assert len(graphs(tmp_path / "graph")) == 1
    assert_as_exact(index, tmp_path / "exact", monkeypatch)


READER = """
import sys
from pathlib import Path
from test_neighbours import WordsEncoder
from talentrl.retrieval import neighbours
from talentrl.retrieval.embedded import EmbeddedIndex

neighbours.EXACT = 40
index = EmbeddedIndex(Path(sys.argv[1]), WordsEncoder())
print("ready", flush=True)
while index.count() < 260:
    hits = index.search("ba de fi", 300)
    # A batch of 20 is seen whole or not at all.
    assert len({hit.id for hit in hits if hit.id >= "d1000"}) % 20 == 0, len(hits)
"""


def test_readers_in_other_processes_see_whole_changes_while_a_writer_works(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr(neighbours, "EXACT", 40)
    writer = EmbeddedIndex.build(tmp_path, documents(60), encoder)
    command = [sys.executable, "-c", READER, str(tmp_path)]
    readers = [subprocess.Popen(command, env=importing_tests(), stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout is not None and reader.stdout.readline() == b"ready\n"
        for batch in range(10):
            writer.upsert(documents(20, start=1000 + 20 * batch))
        assert [reader.wait(60) for reader in readers] == [0, 0]
    finally:
        for reader in readers:
            reader.kill()
