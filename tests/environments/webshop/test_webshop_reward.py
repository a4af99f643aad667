"""The reward of WebShop, rule by rule, with the quirks of the published code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thefuzz import fuzz
from webshop_samples import goal, product

from talentrl.environments.webshop.reward import (
    COLOURS,
    matched_attributes,
    matched_options,
    normal_colour,
    reward,
    type_reward,
)


def nouns(*texts: str, **changes):
    """A product with these nouns in its title, unlike the goal's in query and category unless told."""
    return product(**{"title_nouns": list(texts), "query": "other", "product_category": "Else"} | changes)


def test_all_met_is_exactly_one():
    found = reward(goal(options=[("color", "red"), ("size", "s")]), product(), {"color": "red", "size": "s"})
    assert found == (1.0, 1.0, 1, 2, True)


@pytest.mark.parametrize(
    ("chosen", "price_upper", "expected"),
    [
        ({}, 20.0, 2 / 4),
        ({"color": "red"}, 20.0, 3 / 4),
        ({"color": "blue", "size": "s"}, 20.0, 3 / 4),
        ({"color": "red", "size": "s"}, 12.0, 3 / 4),
        ({}, 12.0, 1 / 4),
    ],
)
def test_the_value_is_the_share_of_what_was_asked(chosen, price_upper, expected):
    asked = goal(options=[("color", "red"), ("size", "s")], price_upper=price_upper)
    assert reward(asked, product(), chosen).value == expected


def test_a_price_equal_to_the_bound_is_within_it():
    assert reward(goal(price_upper=12.5), product(), {}).price
    assert not reward(goal(price_upper=12.49), product(), {}).price


def test_the_type_multiplies_the_share():
    found = reward(goal(), nouns("shirt", *"abcdefghij"), {})
    assert (found.type, found.value) == (1.0, 1.0)  # half of the wanted nouns are there
    wanted = product(title_nouns=["shirt", *"abcdef"])
    found = reward(goal(wanted), nouns("shirt"), {})
    assert (found.type, found.value) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("wanted", "bought", "expected"),
    [
        (["a", "b", "c", "d"], ["a"], 1.0),  # .25 > .2
        (["a", "b", "c", "d", "e"], ["a"], 0.5),  # .2 is not above .2
        (list("abcdefghij"), ["a"], 0.5),  # .1 is not below .1
        (list("abcdefghijk"), ["a"], 0.1),
        (["a"], ["b"], 0.0),
        ([], ["b"], 0.5),  # no wanted noun counts as .2
        (["a"] * 11, ["a"], 0.1),  # repeats count below the line only
        (["a", "a", "a"], ["a", "a"], 1.0),
    ],
)
def test_the_share_of_common_nouns(wanted, bought, expected):
    assert type_reward(product(title_nouns=wanted), nouns(*bought)) == expected


@pytest.mark.parametrize("same", [{"query": "men's shirts"}, {"product_category": "Shirts › Men"}])
def test_query_or_category_make_a_type_but_do_not_save_strange_titles(same):
    wanted = product(title_nouns=list("abcdefghijk"))
    assert type_reward(product(title_nouns=list("abcdefg")), nouns("a", **same)) == 1.0
    assert type_reward(wanted, nouns("a", **same)) == 0.1
    assert type_reward(wanted, nouns("z", **same)) == 0.0


def test_one_common_part_of_the_category_is_not_enough():
    wanted = product(title_nouns=list("abcdefg"))
    assert type_reward(wanted, nouns("a", product_category="Clothing › Women")) == 0.5
    assert type_reward(wanted, nouns("a", product_category="Men ›  Clothing")) == 1.0


def test_attributes_are_alike_or_stand_in_a_text():
    shirt = product()
    assert matched_attributes(["slim fit"], shirt) == 1
    assert matched_attributes(["fit slim regular"], shirt) == 1  # as sets of words, one holds the other
    assert matched_attributes(["slim fits"], shirt) == 1  # 94 > 85
    assert matched_attributes(["slim cut"], shirt) == 0
    assert matched_attributes(["shirt", "machine wash", "soft to", "cotton machine"], shirt) == 3
    assert matched_attributes(["cotton  machine"], shirt) == 1  # features are joined as they are, spaces and all
    assert matched_attributes(["Cotton"], product(attributes=["x"])) == 0  # texts are lower case, what is asked is not
    assert matched_attributes(["slim fit", "slim fit"], shirt) == 2


def test_options_of_people_are_texts_and_match_by_colour_inside():
    assert matched_options(["dark red"], ["red"]) == 0  # dark is a colour and comes first
    assert matched_options(["wine red"], ["red stripes"]) == 1
    assert matched_options(["black1901"], ["black"]) == 1
    assert matched_options(["s"], ["s"]) == 1
    assert matched_options(["1.6 ounce (pack of 1)"], ["1.6 ounce"]) == 1


def test_options_of_synthetic_goals_are_pairs_and_match_by_whole_colour():
    assert normal_colour(("color", "red")) == "red"
    assert normal_colour(("color", "dark red")) == "('color', 'dark red')"
    assert normal_colour("dark red") == "dark"
    assert matched_options([("color", "dark red")], ["dark red"]) == 1  # the word dark is in the pair
    assert matched_options([("color", "2005brown")], ["2005brown"]) == 0  # brown is no word of it: cannot be met
    assert matched_options([("size", "x | l")], ["x | l"]) == 1
    assert matched_options([("size", "small")], ["size"]) == 1  # the name is a word of the pair as well


def test_a_value_of_any_option_counts_and_each_wanted_one_once():
    assert matched_options([("color", "red"), ("style", "red")], ["red"]) == 2
    assert matched_options([("color", "red")], ["red", "red"]) == 1
    assert matched_options([("color", "red")], []) == 0


def test_there_are_102_colours_in_order():
    assert len(COLOURS) == len(set(COLOURS)) == 102
    assert sorted(COLOURS) == COLOURS


texts = st.text(st.sampled_from("ab1 |'(),é-"), max_size=12)


@given(texts, st.tuples(texts, texts))
def test_pairs_compare_as_the_published_code_compares_them(value, pair):
    assert fuzz.token_set_ratio(value, pair) == fuzz.token_set_ratio(value, str(pair))
    assert (matched_options([pair], [value]) == 1) == (fuzz.token_set_ratio(value, pair) > 85)


@given(st.lists(st.text(), max_size=3), st.dictionaries(st.text(), st.text(), max_size=3), st.floats(0, 1000))
def test_a_reward_is_always_in_the_unit_interval(attributes, chosen, bound):
    found = reward(goal(attributes=attributes, options=tuple(chosen.items()), price_upper=bound), product(), chosen)
    assert 0 <= found.value <= 1
