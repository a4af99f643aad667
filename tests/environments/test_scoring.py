"""Exact match and F1 as SQuAD defines them, over all gold answers."""

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
