"""What a player reads in the texts of ALFWorld: the goal in a sentence, the places of a room, what a look shows.

Only texts are read, never the game's own problem, so a policy could have read as much.
"""

import re
from dataclasses import dataclass
from typing import Literal

from talentrl.errors import InputError

NOTHING = "Nothing happens."
"""The observation after a command that the game does not take."""

Verb = Literal["place", "clean", "heat", "cool", "lamp", "pair"]

_NAME = r"[a-z]+ \d+"
_ROOM = re.compile(r"You are in the middle of a room\. Looking quickly around you, you see ([^.]*)\.")
_LISTED = re.compile(rf"\ban? ({_NAME})")
_VIEW = re.compile(
    rf"(?:On the (?P<surface>{_NAME}), you see |The (?P<open>{_NAME}) is open\. In it, you see )(?P<things>[^.]*)\."
    rf"|The (?P<closed>{_NAME}) is closed\."
)
_GOALS: tuple[tuple[Verb, re.Pattern[str]], ...] = (
    ("pair", re.compile(r"(?:find|put) two (?P<thing>[a-z]+) (?:and put them )?in (?P<target>[a-z]+)")),
    ("clean", re.compile(r"(?:put a clean|clean some) (?P<thing>[a-z]+) (?:and put it )?in (?P<target>[a-z]+)")),
    ("heat", re.compile(r"(?:put a hot|heat some) (?P<thing>[a-z]+) (?:and put it )?in (?P<target>[a-z]+)")),
    ("cool", re.compile(r"(?:put a cool|cool some) (?P<thing>[a-z]+) (?:and put it )?in (?P<target>[a-z]+)")),
    ("lamp", re.compile(r"(?:look at|examine the) (?P<thing>[a-z]+) (?:under|with) the (?P<target>[a-z]+)")),
    ("place", re.compile(r"put (?:a|some) (?P<thing>[a-z]+) (?:in|on) (?P<target>[a-z]+)")),
)


@dataclass(frozen=True)
class Goal:
    """What an instruction asks: do `verb` with a thing of kind `thing`; `target` is a kind of place or of lamp."""

    verb: Verb
    thing: str
    target: str


@dataclass(frozen=True)
class View:
    """What is to be seen at a place: nothing while it is closed."""

    place: str
    closed: bool
    things: tuple[str, ...]


def kind(name: str) -> str:
    """The kind of a numbered name: "mug" for "mug 2"."""
    return name.partition(" ")[0]


def read_goal(text: str) -> Goal:
    """The goal that an instruction states, in one of the twelve sentences of the text game.

    Raises:
        InputError: none of the sentences is in `text`.
    """
    for verb, sentence in _GOALS:
        if found := sentence.search(text):
            return Goal(verb, found["thing"], found["target"])
    raise InputError(f"alfworld: instruction {text[:80]!r}: expected a goal such as 'put a clean mug in coffeemachine'")


def read_room(text: str) -> tuple[str, ...]:
    """The places of a room, in the order of the first observation; () where `text` lists none."""
    found = _ROOM.search(text)
    return tuple(_LISTED.findall(found[1])) if found else ()


def read_view(observation: str) -> View | None:
    """The view that an observation holds, or None."""
    found = _VIEW.search(observation)
    if not found:
        return None
    place = found["surface"] or found["open"] or found["closed"]
    return View(place, found["closed"] is not None, tuple(_LISTED.findall(found["things"] or "")))
