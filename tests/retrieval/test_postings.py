"""The posting lists give what FTS5 gives, bit for bit: an index with lists against one whose lists are out of date."""

import sqlite3

from hypothesis import given, settings
from hypothesis import strategies as st
from retrieval_samples import HashingEncoder

from talentrl.retrieval.embedded import FILE, EmbeddedIndex
from talentrl.retrieval.index import Document
from talentrl.retrieval.postings import WordSplitter
from talentrl.retrieval.store import Store

WORDS = ["the", "run", "runs", "running", "owl", "owls", "Ünited", "3", "x\u0305y", "·"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


def stores(folder, documents):
    """Two of the same content: the lists of the first are current, those of the second are not."""
    found = []
    encoder = HashingEncoder()
    for name in ("current", "behind"):
        index = EmbeddedIndex.build(folder / name, documents, encoder)
        if name == "behind":
            index.upsert(documents[:1])
        index.close()
        found.append(Store(folder / name / FILE, encoder))
    return found


@settings(max_examples=40, deadline=None)
@given(st.lists(texts, min_size=1, max_size=8), texts, st.integers(1, 9), st.sets(st.integers(1, 8)), st.booleans())
def test_the_lists_score_as_fts5(tmp_path_factory, passages, query, best, rows, filtered):
    documents = [Document(str(number), text) for number, text in enumerate(passages)]
    wanted = {row for row in rows if row <= len(documents)}
    within = wanted if filtered else None
    current, behind = stores(tmp_path_factory.mktemp("stores"), documents)
    with current.transaction(), behind.transaction():
        assert current.bm25(query, wanted, best, within) == behind.bm25(query, wanted, best, within)
    current.close()
    behind.close()


def test_a_search_with_lists_does_not_ask_fts5(tmp_path, encoder):
    index = EmbeddedIndex.build(tmp_path, [Document("a", "an owl"), Document("b", "a cat")], encoder)
    index.close()
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("DELETE FROM texts_data WHERE id > 10")
    store = Store(tmp_path / FILE, encoder)
    with store.transaction():
        assert set(store.bm25("owls", [], 5)) == {1}


def test_lists_are_made_anew_with_the_graph(tmp_path, encoder, monkeypatch):
    monkeypatch.setattr("talentrl.retrieval.neighbours.EXACT", 2)
    index = EmbeddedIndex.build(tmp_path, [Document(str(number), "an owl") for number in range(4)], encoder)
    store = index._store
    assert store._number("postings_version") == store._number("version")
    index.upsert([Document("new", "a cat")])
    assert store._number("postings_version") < store._number("version")
    index.upsert([Document(f"new {number}", "a cat") for number in range(3)])
    assert store._number("postings_version") == store._number("version")
    assert {hit.id for hit in index.search("cats", 9) if hit.bm25 > 0} == {"new", "new 0", "new 1", "new 2"}


def test_words_become_the_terms_of_fts5():
    assert WordSplitter().split(["running", "Ünited", "x\u0305y", "·"]) == [["run"], ["unit"], ["x", "y"], []]
