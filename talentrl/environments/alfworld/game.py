"""The text game on our own engine: what an action needs and does, and what the game says about it.

The rules are those of the game's PDDL domain, the texts those of its grammar (ALFWorld, MIT), and both are odd in
places. What one would not expect, and the official engine does:

- `look` in the middle of the room names what stands there only in the opening; later it says "nothing".
- `look` elsewhere lists only objects that were taken out of a receptacle of that place and put back there into
  another, once for each receptacle that they left.
- `examine` knows an object only while it is carried. The contents of pots and bowls never change.
- What is inside a closed receptacle can be sliced or switched on. A switched-on lamp is switched on again.
- Cleaning, heating and cooling need no opened sink, microwave or fridge.
- An object may be in several receptacles at first, and its place need not be that of its receptacle.
"""

from collections.abc import Callable, Sequence

from talentrl.environments.alfworld.engine import NOTHING_HAPPENS
from talentrl.environments.alfworld.pddl import Fact
from talentrl.environments.alfworld.scene import Scene

HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
_TREATMENTS = {
    "sinkbasintype": ("clean", "isclean", None),
    "sinktype": ("clean", "isclean", None),
    "microwavetype": ("heat", "ishot", "iscool"),
    "fridgetype": ("cool", "iscool", "ishot"),
}
"""Type of a receptacle → the verb, what it makes true, what it makes false."""
_BLADES = ("knifetype", "butterknifetype")
_CONDITIONS = (
    ({"isclean", "ishot", "issliced"}, "hot and clean sliced"),
    ({"isclean", "iscool", "issliced"}, "cool and clean sliced"),
    ({"isclean", "issliced"}, "clean sliced"),
    ({"ishot", "issliced"}, "hot sliced"),
    ({"iscool", "issliced"}, "cool sliced"),
    ({"isclean", "ishot"}, "hot and clean"),
    ({"isclean", "iscool"}, "cool and clean"),
    ({"ishot"}, "hot"),
    ({"isclean"}, "clean"),
    ({"iscool"}, "cold"),
)
"""What is true of an object → how it is described; the first that fits counts."""

Effect = tuple[Callable[..., str], *tuple[str, ...]]
"""A method of `Game` and the things that it is called with."""


class Game:
    """One game under way; keeps the protocol `Engine`."""

    version = "talentrl-1"

    def __init__(self, scene: Scene) -> None:
        """Play in `scene`; the game stands at its beginning."""
        self._scene = scene
        self._facts: set[Fact]
        self._place: str
        self._held: str | None
        self._left: set[tuple[str, str]]
        """Pairs of an object and a receptacle that it was taken out of and not put back into."""
        self._won: bool | None
        """None when something changed since it was last asked for."""
        self._local: dict[str, Effect] | None
        """Likewise, the commands but "go to"."""
        self._begin()

    def reset(self) -> str:
        """See `Engine.reset`."""
        self._begin()
        return (
            f"-= Welcome to TextWorld, ALFRED! =-\n\n{self._look(opening=True)}\n\nYour task is to: {self._scene.task}."
        )

    def step(self, command: str) -> str:
        """See `Engine.step`."""
        command = command.strip()
        receptacle = self._scene.go_to.get(command)
        if receptacle is not None:
            return NOTHING_HAPPENS if self._is_here(receptacle) else self._go(receptacle)
        effect = self._commands().get(command)
        if effect is None:
            return NOTHING_HAPPENS
        do, *things = effect
        return do(self, *things)

    def admissible(self) -> list[str]:
        """See `Engine.admissible`."""
        away = [command for command, receptacle in self._scene.go_to.items() if not self._is_here(receptacle)]
        return sorted([*away, *self._commands()])

    def won(self) -> bool:
        """See `Engine.won`."""
        if self._won is None:
            self._won = self._scene.goal.holds(self._facts)
        return self._won

    def __getstate__(self) -> dict[str, object]:
        """What cannot be made again from the rest."""
        return {**self.__dict__, "_local": None}

    def _begin(self) -> None:
        scene = self._scene
        self._facts = set(scene.first_facts)
        self._place = scene.start
        held = [fact[2] for fact in self._facts if fact[0] == "holds"]
        self._held = held[0] if held else None
        self._left = set()
        self._won = self._local = None

    def _commands(self) -> dict[str, Effect]:
        """Admissible commands but "go to", and what they do."""
        if self._local is None:
            self._local = {"look": (Game._look,), "inventory": (Game._inventory,), "help": (Game._help,)}
            for receptacle in self._here():
                self._add_commands_at(receptacle, self._local)
            if self._held is not None:
                self._add_commands_with(self._held, self._local)
        return self._local

    def _add_commands_at(self, receptacle: str, commands: dict[str, Effect]) -> None:
        scene, name, its_name = self._scene, self._scene.name, self._scene.name[receptacle]
        commands[f"examine {its_name}"] = (Game._examine_receptacle, receptacle)
        if receptacle in scene.openable:
            if ("opened", receptacle) in self._facts:
                commands[f"close {its_name}"] = (Game._close, receptacle)
            else:
                commands[f"open {its_name}"] = (Game._open, receptacle)
        takeable = scene.pickupable if self._held is None and self._is_accessible(receptacle) else ()
        for thing in self._contents(receptacle):
            if thing in takeable:
                commands[f"take {name[thing]} from {its_name}"] = (Game._take, thing, receptacle)
            if thing in scene.toggleable:
                commands[f"use {name[thing]}"] = (Game._use, thing)

    def _add_commands_with(self, held: str, commands: dict[str, Effect]) -> None:
        scene, name, its_name, kind = (
            self._scene,
            self._scene.name,
            self._scene.name[held],
            self._scene.type_of.get(held),
        )
        commands[f"examine {its_name}"] = (Game._examine_object, held)
        for receptacle in self._here():
            its_kind = scene.type_of.get(receptacle, "")
            if self._is_accessible(receptacle) and (its_kind, kind) in scene.fits:
                commands[f"move {its_name} to {name[receptacle]}"] = (Game._move, held, receptacle)
            if its_kind in _TREATMENTS and held in scene.treatable[_TREATMENTS[its_kind][0]]:
                commands[f"{_TREATMENTS[its_kind][0]} {its_name} with {name[receptacle]}"] = (
                    Game._treat,
                    held,
                    receptacle,
                )
        if kind in _BLADES:
            for thing in scene.sliceable:
                if ("objectatlocation", thing, self._place) in self._facts:
                    commands[f"slice {name[thing]} with {its_name}"] = (Game._slice, thing)

    def _here(self) -> Sequence[str]:
        return self._scene.at.get(self._place, ())

    def _is_here(self, receptacle: str) -> bool:
        return self._scene.place_of[receptacle] == self._place

    def _is_accessible(self, receptacle: str) -> bool:
        return receptacle not in self._scene.openable or ("opened", receptacle) in self._facts

    def _contents(self, receptacle: str) -> list[str]:
        facts = self._facts
        return [thing for thing in self._scene.storable if ("inreceptacle", thing, receptacle) in facts]

    # Commands that only show something.

    def _look(self, opening: bool = False) -> str:
        names = [self._scene.name[receptacle] for receptacle in self._here()]
        if not names:
            seen = self._listed(self._scene.receptacles if opening else [])
            return f"You are in the middle of a room. Looking quickly around you, you see {seen}."
        beside = [
            thing
            for thing, receptacle in sorted(self._left)
            if self._is_here(receptacle) and ("objectatlocation", thing, self._place) in self._facts
        ]
        return f"You are facing the {_joined(names)}. Next to it, you see {self._listed(beside)}."

    def _inventory(self) -> str:
        return (
            "You are not carrying anything."
            if self._held is None
            else f"You are carrying: {self._listed([self._held])}."
        )

    def _help(self) -> str:
        return HELP

    def _examine_receptacle(self, receptacle: str) -> str:
        name = self._scene.name[receptacle]
        if not self._is_accessible(receptacle):
            return f"The {name} is closed."
        contents = self._listed(self._contents(receptacle))
        if receptacle in self._scene.openable:
            return f"The {name} is open. In it, you see {contents}."
        return f"On the {name}, you see {contents}."

    def _examine_object(self, thing: str) -> str:
        scene, name = self._scene, self._scene.name[thing]
        if thing in scene.vessels:
            inside = sorted(inner for inner, outer in scene.in_vessel if outer == thing)
            return f"This is a normal {name}. In it, you see {self._listed(inside)}."
        for predicates, condition in _CONDITIONS:
            if all((predicate, thing) in self._facts for predicate in predicates):
                return f"This is a {condition} {name}."
        if thing in scene.toggleable and ("istoggled", thing) in self._facts:
            return f"This {name} is on."
        if thing in scene.sliceable and ("issliced", thing) in self._facts:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _listed(self, things: Sequence[str]) -> str:
        return _joined([f"a {self._scene.name[thing]}" for thing in things]) or "nothing"

    # Commands that change something.

    def _change(self, *, add: Sequence[tuple[str, ...]] = (), remove: Sequence[tuple[str, ...]] = ()) -> None:
        self._facts.difference_update(remove)
        self._facts.update(add)
        self._won = self._local = None

    def _go(self, receptacle: str) -> str:
        agent, place = self._scene.agent, self._scene.place_of[receptacle]
        self._change(add=[("atlocation", agent, place)], remove=[("atlocation", agent, self._place)])
        self._place = place
        return f"You arrive at {self._scene.name[receptacle]}. {self._examine_receptacle(receptacle)}"

    def _open(self, receptacle: str) -> str:
        self._change(add=[("opened", receptacle)])
        return f"You open the {self._scene.name[receptacle]}. {self._examine_receptacle(receptacle)}"

    def _close(self, receptacle: str) -> str:
        self._change(remove=[("opened", receptacle)])
        return f"You close the {self._scene.name[receptacle]}."

    def _take(self, thing: str, receptacle: str) -> str:
        agent, name = self._scene.agent, self._scene.name
        self._change(
            add=[("holds", agent, thing), ("holdsany", agent)],
            remove=[("inreceptacle", thing, receptacle), ("objectatlocation", thing, self._place)],
        )
        self._held = thing
        self._left.add((thing, receptacle))
        return f"You pick up the {name[thing]} from the {name[receptacle]}."

    def _move(self, thing: str, receptacle: str) -> str:
        agent, name = self._scene.agent, self._scene.name
        self._change(
            add=[("inreceptacle", thing, receptacle), ("objectatlocation", thing, self._place)],
            remove=[("holds", agent, thing), ("holdsany", agent)],
        )
        self._held = None
        self._left.discard((thing, receptacle))
        return f"You move the {name[thing]} to the {name[receptacle]}."

    def _treat(self, thing: str, receptacle: str) -> str:
        verb, becomes, stops = _TREATMENTS[self._scene.type_of[receptacle]]
        self._change(add=[(becomes, thing)], remove=[(stops, thing)] if stops else [])
        return f"You {verb} the {self._scene.name[thing]} using the {self._scene.name[receptacle]}."

    def _use(self, thing: str) -> str:
        on = ("ison", thing)
        self._change(add=[("istoggled", thing), *([] if on in self._facts else [on])], remove=[on])
        return f"You turn on the {self._scene.name[thing]}."

    def _slice(self, thing: str) -> str:
        self._change(add=[("issliced", thing)])
        return f"You sliced the {self._scene.name[thing]} with the {self._scene.name[self._held or '']}."


def _joined(names: Sequence[str]) -> str:
    """`a`, `a, and b`, `a, b, and c`."""
    return ", and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
