"""Product search: the analysis of words, the formula, ties, and the index in a folder."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webshop_samples import frame, many, product, row

from talentrl.environments.webshop.catalogue import Catalogue
from talentrl.environments.webshop.search import K1, Analyser, B, ProductSearch, indexed_text

WORDS = st.lists(st.sampled_from(["red", "shirt", "wool", "shoe", "lamp", "oil"]), min_size=1, max_size=8)


def build(*titles: str) -> ProductSearch:
    blank = {"description": "", "features": [""], "options": []}
    return ProductSearch.build(
        Catalogue(frame(*(row(f"B{n:09d}", title=title, **blank) for n, title in enumerate(titles))))
    )


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Women's running shoes", ["women", "run", "shoe"]),
        ("6.76 fl oz, 1,000 ml", ["6.76", "fl", "oz", "1,000", "ml"]),
        ("red,40 non-slip", ["red", "40", "non", "slip"]),
        ("L’eau d'Issey fl.oz", ["l’eau", "d'issei", "fl.oz"]),
        ("x | l", ["x", "l"]),
        ("", []),
    ],
)
def test_words_are_broken_and_stemmed_as_lucene_does(text, terms):
    assert Analyser()(text) == terms


def test_what_is_indexed():
    shirt = product(features=["Made of cotton", "never this"])
    assert indexed_text(shirt) == "Cotton Shirt Soft to wear. Made of cotton color: red, blue, and size: s, x | l"
    assert indexed_text(product(features=[], options=[], description="")) == "Cotton Shirt   "


@given(st.lists(WORDS, min_size=1, max_size=7), WORDS)
def test_the_ranking_is_bm25_with_ties_in_catalogue_order(documents, query):
    """Lucene's formula written out; a repeated word of the query counts again."""
    mean = sum(map(len, documents)) / len(documents)

    def score(document: list[str]) -> float:
        total = 0.0
        for word in query:
            holding, count = sum(word in other for other in documents), document.count(word)
            idf = log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            total += idf * count / (count + K1 * (1 - B + B * len(document) / mean))
        return total

    found = build(*map(" ".join, documents))(" ".join(query))
    scores = [score(document) for document in documents]
    assert sorted(found) == [n for n, value in enumerate(scores) if value > 0]
    assert [scores[n] for n in found] == pytest.approx(sorted((v for v in scores if v > 0), reverse=True), rel=1e-5)


def test_equal_products_keep_their_order_and_fifty_are_found():
    assert many(200).search("shirt") == tuple(range(50))


def test_better_products_come_first_among_many():
    search = build(*["plain shirt and more words"] * 60, "red shirt", *["plain shirt and more words"] * 60)
    assert search("red shirt")[:3] == (60, 0, 1)


@pytest.mark.parametrize("query", ["zebra", "", "the with", "🙂", "\x00"])
def test_words_of_no_product_find_nothing(query):
    assert build("red shirt", "blue shirt")(query) == ()


def test_products_without_any_word_are_a_searchable_shop():
    assert build("", "the")("shirt") == ()


def test_a_saved_index_finds_the_same(tmp_path):
    shop = many(30)
    shop.search.save(tmp_path / "search")
    loaded = ProductSearch.load(tmp_path / "search")
    for query in ("cotton shirt", "machine", "x l", "zebra", "b soft"):
        assert loaded(query) == shop.search(query)
