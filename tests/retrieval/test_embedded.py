"""What the embedded back end adds to the contract: one file, safe against kills, tied to its encoder."""

import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from retrieval_samples import importing_tests

from talentrl.errors import InputError
from talentrl.retrieval.embedded import FILE, EmbeddedIndex
from talentrl.retrieval.index import Document
from talentrl.retrieval.scoring import Scoring

OLD = [Document("a", "old text"), Document("b", "another old text")]
NEW = [Document("c", "new text")]


def test_opened_index_gives_the_same_hits(tmp_path, encoder):
    built = EmbeddedIndex.build(tmp_path / "index", OLD, encoder)
    opened = EmbeddedIndex(tmp_path / "index", encoder)
    assert opened.search("old", 2) == built.search("old", 2)
    assert [path.name for path in (tmp_path / "index").iterdir()] == [FILE]


def test_a_second_reader_sees_a_change(tmp_path, encoder):
    writer = EmbeddedIndex.build(tmp_path, OLD, encoder)
    reader = EmbeddedIndex(tmp_path, encoder)
    reader.search("old", 2)
    writer.upsert(NEW)
    assert reader.search("new text", 1)[0].id == "c"


def test_a_term_of_most_documents_counts_only_if_no_other_matches(tmp_path, encoder):
    index = EmbeddedIndex.build(tmp_path, [Document(word, f"the {word}") for word in ("cat", "dog", "owl")], encoder)

    def lexical(query):
        return {hit.id for hit in index.search(query, 9) if hit.bm25 > 0}

    assert lexical("the cat") == {"cat"}
    assert lexical("the") == lexical("the unicorn") == {"cat", "dog", "owl"}
    index.upsert([Document(word, f"a {word}") for word in ("elk", "fox", "gnu", "hen")])
    assert lexical("the cat") == {"cat", "dog", "owl"}


def test_order_of_the_documents_does_not_change_the_file(tmp_path, encoder):
    EmbeddedIndex.build(tmp_path / "one", OLD + NEW, encoder)
    EmbeddedIndex.build(tmp_path / "two", (OLD + NEW)[::-1], encoder)
    assert (tmp_path / "one" / FILE).read_bytes() == (tmp_path / "two" / FILE).read_bytes()


def test_failed_build_leaves_the_old_index(tmp_path, encoder, monkeypatch):
    EmbeddedIndex.build(tmp_path, OLD, encoder)
    with monkeypatch.context() as patch:
        patch.setattr("talentrl.retrieval.store._insert", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            EmbeddedIndex.build(tmp_path, NEW, encoder)
    assert EmbeddedIndex(tmp_path, encoder).count() == 2
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_failed_upsert_leaves_the_old_documents(tmp_path, encoder, monkeypatch):
    index = EmbeddedIndex.build(tmp_path, OLD, encoder)
    before = index.search("text", 3)

    with pytest.raises(TypeError):
        index.upsert([*NEW, Document("d", "cannot be stored", {"key": object()})])  # type: ignore[dict-item]
    assert index.search("text", 3) == before


def test_build_replaces_a_broken_file(tmp_path, encoder):
    (tmp_path / FILE).write_text("not a database, but long enough to look at" * 50)
    (tmp_path / f"{FILE}-journal").write_text("left over")
    assert EmbeddedIndex.build(tmp_path, NEW, encoder).search("new", 1)[0].id == "c"
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


KILLED_UPSERT = """
import json, os, signal, sys
from pathlib import Path
from retrieval_samples import HashingEncoder
from talentrl.retrieval.embedded import EmbeddedIndex
from talentrl.retrieval.index import Document
from talentrl.retrieval.scoring import Scoring

class Deadly(dict):
    def items(self):
        os.kill(os.getpid(), signal.SIGKILL)

index = EmbeddedIndex(Path(sys.argv[1]), HashingEncoder())
# More than SQLite's page cache holds, so that the file itself is changed before the kill.
documents = [Document(f"n{n:03}", f"new {n} " * 8000) for n in range(60)]
index.upsert([*documents, Document("z", "z", Deadly(a="b"))])
"""


@pytest.fixture
def killed(tmp_path, encoder):
    """A folder whose index lost its writer halfway, with the journal that the writer left behind."""
    EmbeddedIndex.build(tmp_path, OLD, encoder)
    size = (tmp_path / FILE).stat().st_size
    done = subprocess.run([sys.executable, "-c", KILLED_UPSERT, str(tmp_path)], env=importing_tests(), check=False)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / FILE).stat().st_size > size
    assert (tmp_path / f"{FILE}-journal").exists()
    return tmp_path


def test_killed_upsert_leaves_the_old_documents(killed, encoder):
    index = EmbeddedIndex(killed, encoder)
    assert index.count() == 2
    assert {hit.id for hit in index.search("new text", 9)} == {"a", "b"}


def test_build_after_a_killed_upsert_is_sound(killed, encoder):
    index = EmbeddedIndex.build(killed, NEW, encoder)
    assert [hit.id for hit in index.search("new text", 9)] == ["c"]
    assert [path.name for path in killed.iterdir()] == [FILE]
    with sqlite3.connect(killed / FILE) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_missing_index_says_what_to_rerun(tmp_path, encoder):
    with pytest.raises(InputError, match=r"index\.sqlite: no such index; rerun the index stage"):
        EmbeddedIndex(tmp_path, encoder)


@pytest.mark.parametrize("content", [b"", b"not a database" * 100])
def test_file_that_is_no_index_says_what_to_rerun(tmp_path, encoder, content):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match=r"cannot use this index \(.+\); rerun the index stage"):
        EmbeddedIndex(tmp_path, encoder)


def test_truncated_file_says_what_to_rerun(tmp_path, encoder):
    EmbeddedIndex.build(tmp_path, OLD, encoder).close()
    file = tmp_path / FILE
    file.write_bytes(file.read_bytes()[:8192])
    with pytest.raises(InputError, match="rerun the index stage"):
        EmbeddedIndex(tmp_path, encoder).search("old", 1)


def test_index_of_another_encoder_is_refused(tmp_path, encoder):
    EmbeddedIndex.build(tmp_path, OLD, encoder)
    other = type(encoder)("hashing-2")
    with pytest.raises(InputError, match="found encoder 'hashing-1', expected 'hashing-2'; rerun the index"):
        EmbeddedIndex(tmp_path, other)


@pytest.mark.parametrize("setting", [{"alpha": 1.5}, {"fusion": "max"}, {"candidates": 0}])
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(InputError, match=str(next(iter(setting.values())))):
        Scoring(**setting)


def test_embedding_that_is_not_finite_is_refused(tmp_path, encoder):
    encoder.encode = lambda texts: np.array([[1.0] * 16, [np.nan] * 16], dtype=np.float32)
    with pytest.raises(InputError, match="'b': its embedding is not finite"):
        EmbeddedIndex.build(tmp_path, OLD, encoder)
    assert not list(tmp_path.iterdir())


def test_queries_are_encoded_in_one_batch_and_once(tmp_path, encoder):
    index = EmbeddedIndex.build(tmp_path, OLD, encoder)
    encoder.encoded.clear()
    index.search_many(["x", "y", "x"], 1)
    index.search_many(["y", "z"], 1)
    assert encoder.encoded == [["x", "y"], ["z"]]


def test_no_queries(tmp_path, encoder):
    assert EmbeddedIndex.build(tmp_path, OLD, encoder).search_many([], 1) == []
