"""Exact match and F1 as SQuAD defines them, over all gold answers."""

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.environments.scoring import exact_match, f1, normalise


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("The Eiffel Tower", "eiffel tower"),
        ("  an   apple a\tday\n", "apple day"),
        ("U.S.A.", "usa"),
        ("don't", "dont"),
        ("well-known", "wellknown"),
        ("Theatre of the Absurd", "theatre of absurd"),
        ("a-ha", "aha"),
        ("$1,000.50", "100050"),
        ("São Tomé", "são tomé"),
        ("“quoted”", "“quoted”"),  # only ASCII punctuation goes
        ("it’s 1939–45", "it’s 1939–45"),
        ("“The” end", "“ ” end"),  # an article is a word between any other characters
        ("a\u00a0b the\u2003c", "b c"),  # every kind of white space parts words
        ("STRASSE Straße", "strasse straße"),  # lower case, not case folding
        ("İstanbul", "i̇stanbul"),
        ("Ａ the", "ａ"),
        ("The", ""),
        ("...", ""),
        ("", ""),
    ],
)
def test_normalisation(text, normalised):
    assert normalise(text) == normalised


@pytest.mark.parametrize(
    ("answer", "gold", "match", "overlap"),
    [
        ("the Paris", ["Paris"], 1.0, 1.0),
        ("Paris", ["London", "paris."], 1.0, 1.0),
        ("Paris, France", ["Paris"], 0.0, 2 / 3),
        # 2 of 3 tokens found, 2 of 4 expected
        ("new york city", ["new york state capital"], 0.0, 4 / 7),
        # the best of the aliases, not the last or the mean
        ("new york", ["boston", "new york city", "york"], 0.0, 0.8),
        ("“Paris”", ["Paris"], 0.0, 0.0),
        # tokens count as often as they occur
        ("new new york", ["new york york"], 0.0, 2 / 3),
        ("London", ["Paris"], 0.0, 0.0),
        ("", ["Paris"], 0.0, 0.0),
        (None, ["Paris"], 0.0, 0.0),
        (None, [""], 0.0, 0.0),
        ("Paris", [], 0.0, 0.0),
    ],
)
def test_hand_cases(answer, gold, match, overlap):
    assert exact_match(answer, gold) == match
    assert f1(answer, gold) == pytest.approx(overlap)


words = st.lists(st.sampled_from(["a", "the", "new", "york", "x", "."]), max_size=5).map(" ".join)


@given(words, st.lists(words, max_size=4))
def test_scores_are_in_the_unit_interval_and_do_not_depend_on_the_order_of_aliases(answer, gold):
    assert 0 <= f1(answer, gold) <= 1
    assert f1(answer, gold) == f1(answer, gold[::-1])
    assert exact_match(answer, gold) == exact_match(answer, gold[::-1])
    if exact_match(answer, gold) and normalise(answer):
        assert f1(answer, gold) == 1


@given(st.text())
def test_any_text_can_be_normalised_and_matches_itself(text):
    assert "  " not in normalise(text)
    assert normalise(text) == normalise(text).strip()
    assert exact_match(text, [text]) == 1


def by_definition(answer: str, gold: list[str]) -> tuple[float, float]:
    """Exact match and F1 as the SQuAD paper and its script define them, one pair after the other."""

    def plain(text: str) -> str:
        kept = "".join(character for character in text.lower() if character not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())

    def overlap(text: str) -> float:
        found, expected = plain(answer).split(), plain(text).split()
        common = sum((Counter(found) & Counter(expected)).values())
        if common == 0:
            return 0.0
        precision, recall = common / len(found), common / len(expected)
        return 2 * precision * recall / (precision + recall)

    return max(float(plain(answer) == plain(text)) for text in gold), max(map(overlap, gold))


noisy = st.lists(
    st.sampled_from(
        ["a", "The", "an", "x", "X", "y.", "z-x", "“x”", "’s", "\u00a0", "é", "É", "ß", "İ", "_", "$5", "\n"]
    ),
    max_size=6,
).flatmap(lambda parts: st.sampled_from([" ", ""]).map(lambda between: between.join(parts)))


@given(noisy | st.text(), st.lists(noisy | st.text(max_size=8), min_size=1, max_size=4))
def test_scores_equal_the_definition(answer, gold):
    match, overlap = by_definition(answer, gold)
    assert exact_match(answer, gold) == match
    assert f1(answer, gold) == pytest.approx(overlap, abs=1e-12)
