"""All of a game that never changes: its things, their names, where the receptacles stand, the goal.

A scene is parsed once and shared by every game that is played in it.
"""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from talentrl.environments.alfworld.goal import compile_goal
from talentrl.environments.alfworld.pddl import Fact, Problem, read_problem
from talentrl.errors import InputError

CHANGING = {
    **dict.fromkeys(("opened", "holdsany", "isclean", "ishot", "iscool", "istoggled", "ison", "issliced"), 1),
    **dict.fromkeys(("atlocation", "objectatlocation", "inreceptacle", "holds"), 2),
}
"""Predicates that actions change → their number of objects."""
FIXED = {
    **dict.fromkeys(("openable", "pickupable", "moveable", "toggleable", "sliceable"), 1),
    **dict.fromkeys(("cleanable", "heatable", "coolable", "isreceptacleobject", "isreceptacleobjectfull"), 1),
    **dict.fromkeys(("full", "holdsanyreceptacleobject"), 1),
    **dict.fromkeys(("receptacleatlocation", "objecttype", "receptacletype", "cancontain"), 2),
    **dict.fromkeys(("inreceptacleobject", "wasinreceptacle"), 2),
}
"""Predicates of the domain that no action changes. Not among them is `checked`: games do not track what was seen."""


class Scene:
    """The fixed part of a game. Things go by the ids of the problem; their ids sort them wherever they are listed."""

    def __init__(self, problem_text: str, task: str, where: str) -> None:
        """Read the PDDL problem; `task` is the sentence behind "Your task is to:", `where` names it in messages.

        Raises:
            InputError: the problem or its goal is broken (see `read_problem` and `compile_goal`), there is not just one
                agent in one place, or a receptacle is in two places or a thing of two types.
        """
        problem = read_problem(problem_text, where)
        self.task = task
        self.goal = compile_goal(problem, CHANGING, FIXED, where)
        self.first_facts = frozenset(fact for fact in problem.facts if fact[0] in CHANGING)
        self._source = (problem_text, task, where)
        facts = _Facts(problem, where)
        places = facts.pairs("atlocation")
        if len(places) != 1:
            raise InputError(f"{where}: section (:init …): expected one (atLocation agent place), found {len(places)}")
        ((self.agent, self.start),) = places
        self.name = _names({name for fact in problem.facts for name in fact[1:]})

        self.place_of = facts.function("receptacleatlocation")
        self.receptacles = sorted(self.place_of)
        self.at: dict[str, list[str]] = {}
        """Place → the receptacles there."""
        for receptacle in self.receptacles:
            self.at.setdefault(self.place_of[receptacle], []).append(receptacle)
        self.go_to = {f"go to {self.name[receptacle]}": receptacle for receptacle in self.receptacles}
        self.openable = facts.things("openable")
        self.type_of = facts.function("objecttype") | facts.function("receptacletype")
        self.fits = facts.pairs("cancontain")
        """Pairs of the type of a receptacle and the type of an object that it takes."""

        self.pickupable = facts.things("pickupable")
        self.toggleable = facts.things("toggleable")
        self.sliceable = facts.things("sliceable")
        self.treatable = {verb: facts.things(f"{verb}able") for verb in ("clean", "heat", "cool")}
        stored, held = facts.pairs("inreceptacle"), facts.pairs("holds")
        self.storable = sorted({thing for thing, _ in stored} | {thing for _, thing in held} | self.pickupable)
        """Objects that are or may come into a receptacle."""
        self.vessels = facts.things("isreceptacleobject")
        self.in_vessel = facts.pairs("inreceptacleobject")
        """Pairs of an object and the object that holds it; they stay, whatever is picked up."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the source alone; where it is read back, equal scenes are one again."""
        return read_scene, self._source


@lru_cache(maxsize=256)  # of some 0.2 MB
def read_scene(problem_text: str, task: str, where: str) -> Scene:
    """The scene of a problem, remembered for the next game that is played in it.

    Raises:
        InputError: see `Scene`.
    """
    return Scene(problem_text, task, where)


class _Facts:
    """First facts by predicate."""

    def __init__(self, problem: Problem, where: str) -> None:
        self._where = where
        self._by_predicate: dict[str, set[Fact]] = {}
        for fact in problem.facts:
            count = CHANGING.get(fact[0], FIXED.get(fact[0], len(fact) - 1))
            if len(fact) - 1 != count:
                raise InputError(f"{where}: section (:init …): expected {count} objects of {fact[0]!r}, found {fact}")
            self._by_predicate.setdefault(fact[0], set()).add(fact[1:])

    def things(self, predicate: str) -> frozenset[str]:
        """What a predicate of one object is true of."""
        return frozenset(thing for (thing,) in self._by_predicate.get(predicate, ()))

    def pairs(self, predicate: str) -> frozenset[tuple[str, str]]:
        """What a predicate of two objects is true of."""
        return frozenset((first, second) for first, second in self._by_predicate.get(predicate, ()))

    def function(self, predicate: str) -> dict[str, str]:
        """A predicate of two objects as a function of the first."""
        pairs = self.pairs(predicate)
        function = dict(pairs)
        if len(function) < len(pairs):
            twice = Counter(first for first, _ in pairs).most_common(1)[0][0]
            raise InputError(f"{self._where}: section (:init …): expected one {predicate!r} of {twice!r}, found more")
        return function


def _names(ids: Iterable[str]) -> dict[str, str]:
    """Names such as `mug 2`. The ids of a kind are numbered backwards: the first in order has the highest number.

    The kind is what stands before the first `_bar_` of an id, and the basin of a sink is a kind of its own. An id
    without `_bar_` keeps itself as name, with the space that a number would follow.
    """
    ordered = sorted(ids)
    kinds = {thing: thing.partition("_bar_")[0] + "basin" * ("basin" in thing) for thing in ordered if "_bar_" in thing}
    left = Counter(kinds.values())
    names = {}
    for thing in ordered:
        names[thing] = f"{kinds[thing]} {left[kinds[thing]]}" if thing in kinds else f"{thing} "
        left[kinds.get(thing, "")] -= 1
    return names
