"""What every `HybridIndex` promises, whatever its back end."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from talentrl.errors import InputError
from talentrl.retrieval.index import Document

WORDS = ["river", "capital", "border", "paris", "population", "island", "mountain", "currency"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
corpora = st.dictionaries(st.sampled_from([f"d{n}" for n in range(12)]), texts, min_size=2, max_size=12).map(
    lambda pairs: [Document(id, text) for id, text in pairs.items()]
)
weights = st.dictionaries(st.sampled_from([f"d{n}" for n in range(12)]), st.floats(0.01, 1.0), max_size=5)
scorings = st.fixed_dictionaries(
    {
        "alpha": st.sampled_from([0.0, 0.3, 0.5, 1.0]),
        "fusion": st.sampled_from(["linear", "rrf"]),
        "candidates": st.integers(1, 5),
    }
)
quick = settings(max_examples=25, deadline=None)

CITIES = [
    Document("paris", "Paris is the capital of France", {"kind": "city", "continent": "Europe"}),
    Document("rome", "Rome is the capital of Italy", {"kind": "city", "continent": "Europe"}),
    Document("nile", "The Nile is a river in Africa", {"kind": "river", "continent": "Africa"}),
    Document("cairo", "Cairo is the capital of Egypt", {"kind": "city", "continent": "Africa"}),
]


def ids(hits):
    return [hit.id for hit in hits]


def test_best_match_comes_first_with_its_parts(build):
    hits = build(CITIES).search("capital of Italy", 2)
    assert len(hits) == 2
    assert hits[0].id == "rome"
    assert hits[0].bm25 == 1.0
    assert 0 < hits[0].dense <= 1
    assert hits[0].prior == 0.0
    assert hits[0].score > hits[1].score


def test_count_and_documents(build):
    index = build(CITIES)
    assert index.count() == 4
    assert index.documents(["nile", "paris"]) == [CITIES[2], CITIES[0]]
    with pytest.raises(InputError, match="'atlantis'"):
        index.documents(["nile", "atlantis"])


def test_filter_needs_every_field(build):
    index = build(CITIES)
    assert set(ids(index.search("capital", 9, filter={"kind": "city"}))) == {"paris", "rome", "cairo"}
    assert ids(index.search("river", 9, filter={"kind": "city", "continent": "Africa"})) == ["cairo"]
    assert index.search("capital", 9, filter={"kind": "ocean"}) == []
    assert index.search("capital", 9, filter={"\"odd' key": "x"}) == []


def test_filter_also_holds_for_boosted_documents(build):
    hits = build(CITIES).search("capital", 9, {"nile": 1.0, "rome": 0.5}, 5.0, filter={"kind": "city"})
    assert ids(hits)[0] == "rome"
    assert "nile" not in ids(hits)


def test_bm25_is_relative_to_the_best_that_passes_the_filter(build):
    hits = build(CITIES).search("capital France", 9, filter={"continent": "Africa"})
    assert max(hit.bm25 for hit in hits) == 1.0


def test_boosted_document_outside_both_first_cuts_is_scored_honestly(build):
    documents = [Document(f"a{n}", "capital city of the country") for n in range(20)]
    documents += [
        Document("match", "one capital among very many other words here there everywhere and nowhere"),
        Document("other", "boiling water"),
    ]
    index = build(documents, candidates=3)
    flat = index.search("capital city", 3)
    assert not {"match", "other"} & set(ids(flat))
    hits = {hit.id: hit for hit in index.search("capital city", 3, {"match": 0.5, "other": 1.0}, 50.0)}
    assert 0 < hits["match"].bm25 < 1
    assert hits["match"].prior == 0.5
    assert hits["other"].bm25 == 0.0
    assert hits["other"].prior == 1.0


def test_equal_documents_tie_in_order_of_id(build):
    documents = [Document(id, "same text") for id in ["c", "a", "d", "b"]]
    hits = build(documents).search("same text", 4)
    assert ids(hits) == ["a", "b", "c", "d"]
    assert len({hit.score for hit in hits}) == 1


def test_upsert_is_seen_by_the_next_search(build):
    index = build(CITIES)
    index.search("volcano", 1)
    index.upsert([Document("etna", "Etna is a volcano"), Document("rome", "Rome has seven hills")])
    assert index.count() == 5
    assert ids(index.search("volcano", 1)) == ["etna"]
    assert ids(index.search("seven hills", 1)) == ["rome"]
    assert all(hit.bm25 == 0 for hit in index.search("Italy", 9))


def test_delete_is_seen_by_the_next_search(build):
    index = build(CITIES)
    index.search("river", 1)
    index.delete(["nile", "never-there"])
    assert index.count() == 3
    assert "nile" not in ids(index.search("river Nile", 9))
    index.delete(["paris", "rome", "cairo"])
    assert index.search("river", 9) == []


@pytest.mark.parametrize("query", ["", "   ", "?!", "_", "\u0301"])
def test_query_without_a_term_is_answered_by_dense_alone(build, query):
    hits = build(CITIES).search(query, 2)
    assert len(hits) == 2
    assert all(hit.bm25 == 0 for hit in hits)


@pytest.mark.parametrize(
    "query",
    [
        'capital"',
        "NEAR(a b)",
        "text:capital",
        "AND OR NOT",
        "capital*",
        "^capital - (",
        "{a b}: c",
        "a\x00b",
        "\ud800",
        "'; --",
    ],
)
def test_query_syntax_is_plain_text(build, query):
    assert build(CITIES).search(query, 1)


@quick
@given(query=st.text(st.characters(), max_size=40))
def test_no_query_raises(build, cities_index, query):
    assert len(cities_index.search(query, 4)) == 4


@pytest.fixture(scope="session")
def cities_index(build):
    return build(CITIES)


def test_very_long_query(cities_index):
    assert len(cities_index.search(" ".join(f"word{n}" for n in range(3000)), 2)) == 2


@quick
@given(documents=corpora, query=texts, boosts=weights, k=st.integers(1, 12), scoring=scorings)
def test_zero_prior_weight_is_flat_retrieval(build, documents, query, boosts, k, scoring):
    index = build(documents, **scoring)
    assert index.search(query, k, boosts, 0.0) == index.search(query, k)


@quick
@given(documents=corpora, query=texts, data=st.data(), scoring=scorings)
def test_a_larger_weight_never_ranks_lower(build, documents, query, data, scoring):
    index = build(documents, **scoring)
    chosen = data.draw(st.sampled_from(documents)).id
    lower, higher = sorted(data.draw(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1))))
    before = ids(index.search(query, 12, {chosen: lower}, 2.0))
    after = ids(index.search(query, 12, {chosen: higher}, 2.0))
    assert after.index(chosen) <= before.index(chosen)


@quick
@given(documents=corpora, query=texts, boosts=weights, scoring=scorings)
def test_infinite_prior_weight_is_the_limit(build, documents, query, boosts, scoring):
    index = build(documents, **scoring)
    present = {document.id for document in documents} & boosts.keys()
    steps = {id: round(weight, 2) or 0.01 for id, weight in boosts.items()}
    hits = index.search(query, 12, steps, math.inf)
    assert set(ids(hits)[: len(present)]) == present
    assert ids(hits) == ids(index.search(query, 12, steps, 1e6))
    assert all(math.isfinite(hit.score) for hit in hits)


@quick
@given(documents=corpora, requests=st.lists(st.tuples(texts, weights), max_size=5), scoring=scorings)
def test_search_many_equals_single_searches(build, documents, requests, scoring):
    index = build(documents, **scoring)
    many = index.search_many([query for query, _ in requests], 3, [boosts for _, boosts in requests], 1.5)
    assert many == [index.search(query, 3, boosts, 1.5) for query, boosts in requests]


@quick
@given(first=corpora, second=corpora, query=texts)
def test_history_of_changes_does_not_matter(build, first, second, query):
    """Changing an index step by step and building it anew give the same hits."""
    changed = build(first)
    changed.delete([document.id for document in first[::2]])
    changed.upsert(second)
    content = {document.id: document for document in [*first[1::2], *second]}
    assert changed.search(query, 12) == build(list(content.values())).search(query, 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"prior_weight": -1.0}, "prior_weight is -1.0"),
        ({"prior_weight": math.nan}, "prior_weight is nan"),
        ({"boosts": {"rome": -0.5}}, "'rome' is -0.5"),
        ({"boosts": {"rome": math.inf}}, "'rome' is inf"),
    ],
)
def test_search_refuses_arguments_out_of_range(cities_index, arguments, message):
    with pytest.raises(InputError, match=message):
        cities_index.search("capital", **{"k": 1, **arguments})


def test_boost_of_an_unknown_document_is_ignored(cities_index):
    assert cities_index.search("capital", 4, {"atlantis": 1.0}, 3.0) == cities_index.search("capital", 4)


def test_search_many_wants_boosts_for_each_query(cities_index):
    with pytest.raises(InputError, match="1 boosts for 2 queries"):
        cities_index.search_many(["a", "b"], 1, [None])


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([Document("a", "x"), Document("a", "y")], "'a': id occurs twice"),
        ([Document("a", " \n")], "'a': text is empty"),
        ([Document("", "x")], "id is empty"),
        ([Document("a", "\ud800")], "'a': not valid Unicode"),
    ],
)
def test_bad_documents_change_nothing(build, documents, message):
    index = build(CITIES)
    with pytest.raises(InputError, match=message):
        index.upsert([*documents, Document("good", "good")])
    assert index.count() == 4
    with pytest.raises(InputError, match=message):
        build(documents)


def test_no_documents_are_refused(build):
    with pytest.raises(InputError, match="no documents"):
        build([])
