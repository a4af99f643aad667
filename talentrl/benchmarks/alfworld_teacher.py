"""Teachers of `alfworld`: one that plays a talent's strategy, and one that follows the game's own walkthrough.

The first stands for an agent that has taken a strategy and believes in it: it plays it on any task, also where it
is wrong. It knows what the instruction and the observations say, and where things of a kind are often found
(`alfworld_places`); never the game's problem. When its strategy has nothing left to do it stops, and an
unfinished task is a failed one. Success of a talent on a type of task is therefore measured, not declared.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from dataclasses import dataclass, field

from talentrl.benchmarks.alfworld_places import CLOSED, LIKELY
from talentrl.benchmarks.alfworld_reading import NOTHING, Goal, kind, read_goal, read_room, read_view
from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError

Play = Generator[str, str, None]
"""Yields assistant texts and is sent observations."""
Done = Generator[str, str, bool]
"""Turns of a play; then whether they did what they were for."""
Name = Generator[str, str, str | None]
"""Turns of a play; then the name of a thing or place, or None."""
Found = Generator[str, str, tuple[str, str] | None]
"""Turns of a search; then the thing found and its place, or None."""

APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


@dataclass
class Room:
    """What the player knows of the room."""

    places: tuple[str, ...]
    order: Callable[[tuple[str, ...], str], list[str]]
    """Given all places and a kind of thing: the places to look for it, in order."""
    seen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Things at each place whose inside was seen."""
    closed: set[str] = field(default_factory=set)
    here: str | None = None

    def of_kind(self, name: str) -> list[str]:
        """Places of a kind, first the one where the player stands."""
        return sorted((place for place in self.places if kind(place) == name), key=lambda place: place != self.here)

    def note(self, observation: str) -> None:
        """Remember what an observation shows of a place."""
        view = read_view(observation)
        if view and view.closed:
            self.closed.add(view.place)
        elif view:
            self.closed.discard(view.place)
            self.seen[view.place] = view.things


def play(task: Task, talent: str, first: str = "") -> Play:
    """Play `talent` on `task`: yield `<think>…</think><action>…</action>` texts, be sent observations.

    `first` is the first observation, which lists the places; it may be left out if the instruction holds it.

    Raises:
        InputError: the talent has no script, the instruction states no goal of ALFWorld, or no text lists the
            places of the room (raised by this call, not later).
    """
    if talent not in TALENTS:
        raise InputError(f"teacher: unknown talent {talent!r}, expected one of {sorted(TALENTS)}")
    goal, places = read_goal(task.instruction), read_room(first) or read_room(task.instruction)
    if not places:
        raise InputError(f"teacher: task {task.task_id!r}: first observation: found {first[:60]!r}, expected places")
    order, script = TALENTS[talent]
    return _played(script(goal, Room(places, order)))


def walkthrough(task: Task) -> Play:
    """Follow the game's own solution, `payload["walkthrough"]`, a list of commands that no player could know.

    Raises:
        InputError: the task has no walkthrough (raised by this call, not later).
    """
    commands = task.payload.get("walkthrough")
    if not isinstance(commands, list) or not commands or not all(isinstance(command, str) for command in commands):
        raise InputError(f"teacher: task {task.task_id!r}: walkthrough: found {commands!r:.60}, expected commands")
    return _follow(commands)


def _follow(commands: list[str]) -> Play:
    for command in commands:
        yield f"<action>{command}</action>"


def _played(script: Done) -> Play:
    yield from script


# What a strategy is made of. A thought names the step that a turn serves.


def _do(room: Room, thought: str, command: str) -> Done:
    """One turn; False if the game did not take the command."""
    observation = yield f"<think>{thought}</think><action>{command}</action>"
    room.note(observation)
    return not observation.startswith(NOTHING)


def _go(room: Room, place: str, thought: str) -> Done:
    """Stand at `place`; no turn if the player stands there already."""
    if place == room.here:
        return True
    # Where two places are one spot, the game refuses to go from one to the other, but lets one look.
    there = (yield from _do(room, thought, f"go to {place}")) or (yield from _do(room, thought, f"examine {place}"))
    room.here = place if there else room.here
    return there


def _open(room: Room, place: str, thought: str) -> Done:
    """Stand at `place`, and open it if it is closed."""
    there = yield from _go(room, place, thought)
    return there and (place not in room.closed or (yield from _do(room, thought, f"open {place}")))


def _find(room: Room, wanted: str, known: Collection[str] = ()) -> Found:
    """A thing of kind `wanted` whose name is not in `known`: first from memory, then from place to place."""
    for place in [*room.seen, *room.order(room.places, wanted)]:
        if place not in room.seen:
            yield from _open(room, place, f"find {wanted}")
        for thing in room.seen.get(place, ()):
            if kind(thing) == wanted and thing not in known:
                return thing, place
    return None


def _take(room: Room, thing: str, place: str) -> Done:
    thought = f"take {thing}"
    yield from _go(room, place, thought)
    return (yield from _do(room, thought, f"take {thing} from {place}"))


def _get(room: Room, wanted: str, known: Collection[str] = ()) -> Name:
    """Find a thing of kind `wanted` and take it; the thing."""
    found = yield from _find(room, wanted, known)
    return found[0] if found and (yield from _take(room, *found)) else None


def _put(room: Room, thing: str, places: Iterable[str]) -> Name:
    """Put `thing` into the first of `places` that takes it; that place."""
    for place in places:
        thought = f"put {thing} in {kind(place)}"
        if (yield from _open(room, place, thought)) and (yield from _do(room, thought, f"move {thing} to {place}")):
            return place
    return None


def _treat(room: Room, verb: str, thing: str) -> Done:
    """Clean, heat or cool `thing`; none of it needs an open door."""
    for place in room.of_kind(APPLIANCES[verb]):
        if (yield from _go(room, place, f"{verb} {thing}")):
            return (yield from _do(room, f"{verb} {thing}", f"{verb} {thing} with {place}"))
    return False


# The strategies.


def _place(goal: Goal, room: Room) -> Done:
    thing = yield from _get(room, goal.thing)
    return bool(thing and (yield from _put(room, thing, room.of_kind(goal.target))))


def _treat_then_place(verb: str) -> Callable[[Goal, Room], Done]:
    def script(goal: Goal, room: Room) -> Done:
        thing = yield from _get(room, goal.thing)
        if not thing or not (yield from _treat(room, verb, thing)):
            return False  # what could not be treated is not placed
        return bool((yield from _put(room, thing, room.of_kind(goal.target))))

    return script


def _lamp(goal: Goal, room: Room) -> Done:
    lamp = goal.target if goal.verb == "lamp" else "desklamp"
    if not (yield from _get(room, goal.thing)):
        return False
    found = yield from _find(room, lamp)
    if not found or not (yield from _go(room, found[1], f"use {lamp}")):
        return False
    return (yield from _do(room, f"use {lamp}", f"use {found[0]}"))


def _pair(goal: Goal, room: Room) -> Done:
    """Carry nothing before two are known; then bring the one at hand, then the other, to the same place."""
    first = yield from _find(room, goal.thing)
    second = (yield from _find(room, goal.thing, first)) if first else None
    if not first or not second or not (yield from _take(room, *second)):
        return False
    place = yield from _put(room, second[0], room.of_kind(goal.target))
    return bool(place and (yield from _take(room, *first)) and (yield from _put(room, first[0], [place])))


def _one_by_one(goal: Goal, room: Room) -> Done:
    """Bring a thing, look on for another, bring that to the same place."""
    first = yield from _get(room, goal.thing)
    place = (yield from _put(room, first, room.of_kind(goal.target))) if first else None
    if not first or not place:
        return False
    second = yield from _get(room, goal.thing, (first,))
    return bool(second and (yield from _put(room, second, [place])))


def _as_told(goal: Goal, room: Room) -> Done:
    """What the verb of the instruction says."""
    if goal.verb in APPLIANCES:
        return (yield from _treat_then_place(goal.verb)(goal, room))
    return (yield from {"place": _place, "lamp": _lamp, "pair": _one_by_one}[goal.verb](goal, room))


# The orders in which to look for things.


def _likely(places: tuple[str, ...], wanted: str) -> list[str]:
    """The likeliest places first; things are looked for everywhere, lamps only where they stand."""
    order = LIKELY.get(wanted, ())
    ranks = {place: order.index(kind(place)) for place in places if kind(place) in order}
    rest = () if wanted.endswith("lamp") else (place for place in places if place not in ranks)
    return [*sorted(ranks, key=ranks.__getitem__), *rest]


def _listed(places: tuple[str, ...], wanted: str) -> list[str]:
    """As the room lists them."""
    return list(places)


def _hidden(places: tuple[str, ...], wanted: str) -> list[str]:
    """Behind doors and in drawers first."""
    return sorted(places, key=lambda place: kind(place) not in CLOSED)


TALENTS: dict[str, tuple[Callable[[tuple[str, ...], str], list[str]], Callable[[Goal, Room], Done]]] = {
    "place": (_likely, _place),
    "clean": (_likely, _treat_then_place("clean")),
    "heat": (_likely, _treat_then_place("heat")),
    "cool": (_likely, _treat_then_place("cool")),
    "lamp": (_likely, _lamp),
    "pair": (_likely, _pair),
    "sweep": (_listed, _as_told),
    "hidden": (_hidden, _as_told),
}
"""Talent -> the order in which it looks for things, and what it does with them."""
