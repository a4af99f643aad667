"""Texts of ALFWorld: goals in all twelve sentences, rooms and views of any content are read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.benchmarks.alfworld_reading import Goal, View, read_goal, read_room, read_view
from talentrl.errors import InputError

names = st.builds(
    lambda word, number: f"{word} {number}",
    st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12),
    st.integers(1, 99),
)
lists = st.lists(names, max_size=8)


def listed(things: list[str]) -> str:
    """As the game writes a list."""
    named = [f"a {thing}" for thing in things]
    if len(named) < 2:
        return named[0] if named else "nothing"
    return f"{', '.join(named[:-1])}, and {named[-1]}"


@pytest.mark.parametrize(
    ("sentence", "goal"),
    [
        ("put a kettle in shelf", Goal("place", "kettle", "shelf")),
        ("put some knife on sidetable", Goal("place", "knife", "sidetable")),
        ("put a clean bowl in shelf", Goal("clean", "bowl", "shelf")),
        ("clean some mug and put it in coffeemachine", Goal("clean", "mug", "coffeemachine")),
        ("put a hot egg in garbagecan", Goal("heat", "egg", "garbagecan")),
        ("heat some cup and put it in cabinet", Goal("heat", "cup", "cabinet")),
        ("put a cool bread in countertop", Goal("cool", "bread", "countertop")),
        ("cool some pan and put it in stoveburner", Goal("cool", "pan", "stoveburner")),
        ("look at box under the desklamp", Goal("lamp", "box", "desklamp")),
        ("examine the watch with the floorlamp", Goal("lamp", "watch", "floorlamp")),
        ("put two cup in cabinet", Goal("pair", "cup", "cabinet")),
        ("find two glassbottle and put them in fridge", Goal("pair", "glassbottle", "fridge")),
    ],
)
def test_goals_are_read_alone_or_in_a_first_observation(sentence, goal):
    assert read_goal(sentence) == goal
    assert read_goal(f"You are in the middle of a room.\n\nYour task is to: {sentence}.") == goal


@pytest.mark.parametrize("text", ["", "make coffee", "put", "put a kettle", "clean some mug"])
def test_another_sentence_is_refused(text):
    with pytest.raises(InputError, match="expected a goal such as"):
        read_goal(text)


@given(lists)
def test_a_room_is_read_back_in_order(places):
    text = f"You are in the middle of a room. Looking quickly around you, you see {listed(places)}."
    assert read_room(f"-= Welcome to TextWorld, ALFRED! =-\n\n{text}\n\nYour task is to: put a mug in desk.") == tuple(
        places
    )


@given(names, lists, st.sampled_from(["", "arrive", "open"]))
def test_a_view_is_read_back(place, things, before):
    lead = {"": "", "arrive": f"You arrive at {place}. ", "open": f"You open the {place}. "}[before]
    view = View(place, False, tuple(things))
    assert read_view(f"{lead}On the {place}, you see {listed(things)}.") == view
    assert read_view(f"{lead}The {place} is open. In it, you see {listed(things)}.") == view
    assert read_view(f"{lead}The {place} is closed.") == View(place, True, ())


@pytest.mark.parametrize(
    "text",
    [
        "Nothing happens.",
        "You pick up the mug 1 from the desk 1.",
        "You close the drawer 1.",
        "You are facing the desk 1. Next to it, you see nothing.",
        "This is a normal bowl 1. In it, you see nothing.",
        "You are carrying: a mug 1.",
    ],
)
def test_what_shows_no_place_is_no_view(text):
    assert read_view(text) is None


@given(st.text())
def test_any_text_is_taken(text):
    read_view(text)
    read_room(text)
