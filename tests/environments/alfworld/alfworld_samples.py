"""A kitchen of our own, small enough to follow by hand, that shows what is odd about the game."""

import random
from collections.abc import Iterable

from talentrl.benchmarks.taskset import Task
from talentrl.environments.alfworld.game import Game
from talentrl.environments.alfworld.scene import read_scene

TASK = "put two apples on the shelf"
TYPES = {
    "agent": ["agent1"],
    "location": [f"loc_bar_{number}" for number in range(7)],
    "receptacle": [
        *("CounterTop_bar_1", "Shelf_bar_1", "Shelf_bar_2", "Fridge_bar_1", "Sink_bar_1_bar_SinkBasin"),
        *("Microwave_bar_1", "Drawer_bar_1", "Drawer_bar_2"),
    ],
    "object": [
        *("Apple_bar_1", "Apple_bar_2", "Bread_bar_1", "Knife_bar_1", "Mug_bar_1", "Bowl_bar_1", "Egg_bar_1"),
        *("DeskLamp_bar_1", "Sink_bar_1", "Pen_bar_1"),
    ],
    "otype": [
        *("AppleType", "BreadType", "KnifeType", "ButterKnifeType", "MugType", "BowlType", "EggType"),
        *("DeskLampType", "PenType"),
    ],
    "rtype": [
        *("CounterTopType", "ShelfType", "FridgeType", "SinkBasinType", "SinkType", "MicrowaveType", "DrawerType"),
    ],
}
PLACES = {
    "CounterTop_bar_1": 1,
    "Shelf_bar_1": 1,
    "Shelf_bar_2": 1,
    "Fridge_bar_1": 2,
    "Sink_bar_1_bar_SinkBasin": 3,
    "Microwave_bar_1": 4,
    "Drawer_bar_1": 5,
    "Drawer_bar_2": 5,
}
SINK = ["Sink_bar_1_bar_SinkBasin"]
CONTENTS = {
    "Apple_bar_1": ["CounterTop_bar_1"],
    "Apple_bar_2": ["CounterTop_bar_1"],
    "Knife_bar_1": ["CounterTop_bar_1"],
    "Bowl_bar_1": ["CounterTop_bar_1"],
    "Mug_bar_1": ["Shelf_bar_1", "Shelf_bar_2"],
    "Bread_bar_1": ["Fridge_bar_1"],
    "DeskLamp_bar_1": ["Drawer_bar_1"],
    "Egg_bar_1": SINK,
}
FACTS = [
    "(atLocation agent1 loc_bar_0)",
    *(f"(receptacleAtLocation {receptacle} loc_bar_{place})" for receptacle, place in PLACES.items()),
    *(f"(receptacleType {name} {name.split('_')[-1 if 'Sink' in name else 0]}Type)" for name in PLACES),
    *(f"(inReceptacle {thing} {receptacle})" for thing, where in CONTENTS.items() for receptacle in where),
    *(f"(objectAtLocation {thing} loc_bar_{PLACES[where[0]]})" for thing, where in CONTENTS.items() if where != SINK),
    "(objectAtLocation Egg_bar_1 loc_bar_6)",
    "(objectAtLocation Pen_bar_1 loc_bar_1)",
    *(f"(objectType {thing} {thing.split('_')[0]}Type)" for thing in TYPES["object"] if thing != "Sink_bar_1"),
    *(f"(openable {receptacle})" for receptacle in PLACES if receptacle.startswith(("Fridge", "Micro", "Drawer"))),
    "(opened Drawer_bar_2)",
    *(f"(pickupable {thing})" for thing in CONTENTS if thing != "DeskLamp_bar_1"),
    "(toggleable DeskLamp_bar_1)",
    "(sliceable Apple_bar_1)",
    "(sliceable Bread_bar_1)",
    *(f"({kind} Apple_bar_1)" for kind in ("cleanable", "heatable", "coolable")),
    "(coolable Mug_bar_1)",
    "(isCool Mug_bar_1)",
    "(isReceptacleObject Bowl_bar_1)",
    "(inReceptacleObject Egg_bar_1 Bowl_bar_1)",
    *(f"(canContain {kind} AppleType)" for kind in ("CounterTopType", "ShelfType", "FridgeType", "DrawerType")),
    *(f"(canContain {kind} MugType)" for kind in ("CounterTopType", "ShelfType")),
]
GOAL = """(and (exists (?r - receptacle) (exists (?o1 - object) (and
    (objectType ?o1 AppleType) (receptacleType ?r ShelfType) (inReceptacle ?o1 ?r)
    (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 AppleType) (inReceptacle ?o2 ?r)))))))"""


def problem(facts: Iterable[str] = FACTS, goal: str = GOAL) -> str:
    """The kitchen's PDDL text."""
    objects = "\n".join(f"{' '.join(names)} - {kind}" for kind, names in TYPES.items())
    return f"""
(define (problem kitchen) ; a comment (with
 (:domain alfred)
 (:objects {objects})
 (:init (= (total-cost) 0)
  {" ".join(facts)})
 (:goal {goal}))
"""


KITCHEN = problem()

# Property → how many of the objects have it at first.
SHARES = {
    **{"pickupable": 0.8, "cleanable": 0.5, "heatable": 0.5, "coolable": 0.5, "sliceable": 0.4, "toggleable": 0.3},
    **{"isCool": 0.15, "isHot": 0.1, "isClean": 0.1, "isSliced": 0.1, "isToggled": 0.1, "isOn": 0.1},
    "isReceptacleObject": 0.15,
}
GOALS = [
    GOAL,
    """(and (exists (?o - object ?r - receptacle ?a - agent ?l - location) (and (isToggled ?o) (inReceptacle ?o ?r)
        (receptacleAtLocation ?r ?l) (atLocation ?a ?l))) (exists (?o - object ?a - agent) (holds ?a ?o)))""",
    "(exists (?r - receptacle) (exists (?o - object) (and (heatable ?o) (isHot ?o) (inReceptacle ?o ?r))))",
    "(exists (?o - object ?r - receptacle) (and (isCool ?o) (isClean ?o) (inReceptacle ?o ?r) (opened ?r)))",
]


def random_kitchen(seed: int) -> str:
    """A PDDL text with the kitchen's things, thrown together as no real game has them."""
    draw = random.Random(seed)
    receptacles, things = TYPES["receptacle"], TYPES["object"]
    place = {receptacle: draw.randint(1, 4) for receptacle in receptacles}
    facts = [fact for fact in FACTS if fact.startswith(("(receptacleType", "(objectType"))]
    facts.append(f"(atLocation agent1 loc_bar_{draw.choice([0, 0, 1])})")
    facts += [f"(receptacleAtLocation {receptacle} loc_bar_{number})" for receptacle, number in place.items()]
    facts += [f"({what} {receptacle})" for what in ("openable", "opened") for receptacle in draw.sample(receptacles, 4)]
    for thing in things:
        inside = draw.sample(receptacles, draw.choice([0, 1, 1, 1, 2, 3]))
        places = [place[receptacle] for receptacle in inside] + [draw.randint(0, 5)]
        facts += [f"(inReceptacle {thing} {receptacle})" for receptacle in inside]
        facts += [
            f"(objectAtLocation {thing} loc_bar_{number})" for number in draw.sample(places, draw.choice([0, 1, 1]))
        ]
        facts += [f"({what} {thing})" for what, share in SHARES.items() if draw.random() < share]
        if draw.random() < 0.2:
            facts.append(f"(inReceptacleObject {thing} {draw.choice(things)})")
    if draw.random() < 0.3:
        facts += [f"(holds agent1 {draw.choice(things)})", "(holdsAny agent1)"]
    pairs = [f"(canContain {kind} {other})" for kind in TYPES["rtype"] for other in TYPES["otype"]]
    return problem(sorted({*facts, *draw.sample(pairs, len(pairs) * 2 // 3)}), draw.choice(GOALS))


def kitchen() -> Game:
    """A new game in the kitchen."""
    return Game(read_scene(KITCHEN, TASK, "kitchen"))


def kitchen_task(**payload: object) -> Task:
    """The kitchen as a task."""
    values = {"problem": KITCHEN, "task_type": "pick_two_obj_and_place", **payload}
    return Task("kitchen/1", "alfworld", "train", TASK, (), values)
