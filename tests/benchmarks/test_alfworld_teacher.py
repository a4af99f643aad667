"""The teachers of ALFWorld: what each talent does, turn by turn, where it fits and where it is wrong."""

import json
import lzma
import os
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.bank import SkillBank
from talentrl.benchmarks.alfworld_places import CLOSED, LIKELY
from talentrl.benchmarks.alfworld_teacher import TALENTS, play, walkthrough
from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError
from talentrl.policy.parser import parse_action

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data"))
TRAIN = DATA / "alfworld/train.jsonl.xz"

KITCHEN = (
    "You are in the middle of a room. Looking quickly around you, you see "
    "a cabinet 1, a countertop 2, a countertop 1, a fridge 1, a microwave 1, and a sinkbasin 1."
)
VIEWS = {
    "go to cabinet 1": "You arrive at cabinet 1. The cabinet 1 is closed.",
    "open cabinet 1": "You open the cabinet 1. The cabinet 1 is open. In it, you see a plate 1.",
    "go to countertop 1": "You arrive at countertop 1. On the countertop 1, you see a cup 1, and a mug 1.",
    "go to countertop 2": "You arrive at countertop 2. On the countertop 2, you see a mug 2.",
    "go to fridge 1": "You arrive at fridge 1. The fridge 1 is closed.",
    "open fridge 1": "You open the fridge 1. The fridge 1 is open. In it, you see nothing.",
    "go to microwave 1": "You arrive at microwave 1. The microwave 1 is closed.",
    "go to sinkbasin 1": "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing.",
}
"""What a kitchen shows; where nothing is said, the command is taken."""


def task(instruction: str, **payload) -> Task:
    return Task("1", "alfworld", "train", instruction, (), payload)


def commands(script, replies: Mapping[str, str] = VIEWS, refused: tuple[str, ...] = (), most: int = 60) -> list[str]:
    """The commands of `script`, answered by `replies`; the game refuses those in `refused`."""
    done: list[str] = []
    try:
        text = next(script)
        while len(done) < most:
            action = parse_action(text)
            assert action is not None and action.kind == "action", text
            done.append(action.argument)
            reply = replies.get(action.argument, "Done.")
            text = script.send("Nothing happens." if action.argument in refused else reply)
    except StopIteration:
        pass
    return done


def played(talent: str, instruction: str, **settings) -> list[str]:
    return commands(play(task(instruction), talent, KITCHEN), **settings)


def test_place_brings_the_thing_as_it_is():
    assert played("place", "put a mug in cabinet") == [
        "go to countertop 2",
        "take mug 2 from countertop 2",
        "go to cabinet 1",
        "open cabinet 1",
        "move mug 2 to cabinet 1",
    ]


def test_heat_on_a_task_of_cleaning_heats():
    assert played("heat", "put a clean mug in cabinet") == [
        "go to countertop 2",
        "take mug 2 from countertop 2",
        "go to microwave 1",
        "heat mug 2 with microwave 1",
        "go to cabinet 1",
        "open cabinet 1",
        "move mug 2 to cabinet 1",
    ]


def test_what_cannot_be_treated_is_not_placed():
    assert played("cool", "put a mug in cabinet", refused=("cool mug 2 with fridge 1",)) == [
        "go to countertop 2",
        "take mug 2 from countertop 2",
        "go to fridge 1",
        "cool mug 2 with fridge 1",
    ]


def test_a_place_that_refuses_is_passed_over_for_the_next_of_its_kind():
    done = played("sweep", "put a plate in countertop", refused=("move plate 1 to countertop 2",))
    assert done == [
        "go to cabinet 1",
        "open cabinet 1",
        "take plate 1 from cabinet 1",
        "go to countertop 2",
        "move plate 1 to countertop 2",
        "go to countertop 1",
        "move plate 1 to countertop 1",
    ]


def test_pair_knows_two_before_it_takes_the_one_at_hand():
    assert played("pair", "put two mug in sinkbasin") == [
        "go to countertop 2",
        "go to countertop 1",
        "take mug 1 from countertop 1",
        "go to sinkbasin 1",
        "move mug 1 to sinkbasin 1",
        "go to countertop 2",
        "take mug 2 from countertop 2",
        "go to sinkbasin 1",
        "move mug 2 to sinkbasin 1",
    ]


def test_pair_takes_nothing_if_there_is_one_alone():
    done = played("pair", "put a cup in sinkbasin")
    assert sorted(done) == sorted([*VIEWS, "open microwave 1"])  # all was seen once, and nothing else done


def test_sweep_takes_places_as_listed_and_does_what_is_told():
    assert played("sweep", "put two mug in sinkbasin") == [
        "go to cabinet 1",
        "open cabinet 1",
        "go to countertop 2",
        "take mug 2 from countertop 2",
        "go to sinkbasin 1",
        "move mug 2 to sinkbasin 1",
        "go to countertop 1",
        "take mug 1 from countertop 1",
        "go to sinkbasin 1",
        "move mug 1 to sinkbasin 1",
    ]


def test_hidden_looks_behind_doors_first():
    done = played("hidden", "heat some cup and put it in countertop")
    assert done[:6] == [
        f"{verb} {place} 1" for place in ("cabinet", "fridge", "microwave") for verb in ("go to", "open")
    ]
    assert done[6:] == [
        "go to countertop 2",
        "go to countertop 1",
        "take cup 1 from countertop 1",
        "go to microwave 1",
        "heat cup 1 with microwave 1",
        "go to countertop 2",
        "move cup 1 to countertop 2",
    ]


BEDROOM = "You are in the middle of a room. Looking quickly around you, you see a bed 1, a desk 1, and a safe 1."
BEDROOM_VIEWS = {
    "go to bed 1": "You arrive at bed 1. On the bed 1, you see a book 1.",
    "go to desk 1": "You arrive at desk 1. On the desk 1, you see a desklamp 1, and a pen 2.",
}


def test_lamp_carries_the_thing_to_the_lamp_and_uses_it():
    assert commands(play(task("look at book under the desklamp"), "lamp", BEDROOM), BEDROOM_VIEWS) == [
        "go to bed 1",
        "take book 1 from bed 1",
        "go to desk 1",
        "use desklamp 1",
    ]


def test_lamp_looks_for_a_lamp_only_where_lamps_stand():
    assert played("lamp", "put a mug in cabinet") == ["go to countertop 2", "take mug 2 from countertop 2"]


def test_place_has_nowhere_to_put_a_thing_under_a_lamp():
    done = commands(play(task("look at book under the desklamp"), "place", BEDROOM), BEDROOM_VIEWS)
    assert done == ["go to bed 1", "take book 1 from bed 1"]


def test_two_places_on_one_spot_are_both_looked_at():
    replies = {"examine countertop 1": "On the countertop 1, you see a cup 1."}
    done = played("place", "put a cup in sinkbasin", replies=replies, refused=("go to countertop 1",))
    assert done[done.index("go to countertop 1") :] == [
        "go to countertop 1",
        "examine countertop 1",
        "take cup 1 from countertop 1",
        "go to sinkbasin 1",
        "move cup 1 to sinkbasin 1",
    ]


def test_the_room_may_stand_in_the_instruction():
    told = task(f"{KITCHEN}\n\nYour task is to: put a mug in cabinet.")
    assert commands(play(told, "place")) == played("place", "put a mug in cabinet")


def test_a_thought_names_the_step():
    script = play(task("put a mug in cabinet"), "place", KITCHEN)
    assert next(script) == "<think>find mug</think><action>go to countertop 2</action>"
    assert script.send(VIEWS["go to countertop 2"]).startswith("<think>take mug 2</think>")


@pytest.mark.parametrize("talent", TALENTS)
@given(replies=st.lists(st.sampled_from([*VIEWS.values(), "Nothing happens.", "", "A bell rings."]), max_size=40))
def test_a_play_ends_whatever_is_observed(talent, replies):
    for instruction in ("put two mug in cabinet", "put a cool cup in shelf", "examine the mug with the desklamp"):
        script = play(task(instruction), talent, KITCHEN)
        next(script)
        with suppress(StopIteration):
            for reply in replies + ["Nothing happens."] * 60:
                assert parse_action(script.send(reply)) is not None
            pytest.fail("still playing, though nothing happens any more")


def test_wrong_input_is_refused_before_the_first_turn():
    with pytest.raises(InputError, match="unknown talent 'fly', expected one of"):
        play(task("put a mug in cabinet"), "fly", KITCHEN)
    with pytest.raises(InputError, match="expected a goal such as"):
        play(task("make coffee"), "place", KITCHEN)
    with pytest.raises(InputError, match="first observation: found '', expected places"):
        play(task("put a mug in cabinet"), "place")


def test_the_walkthrough_is_followed_to_its_end():
    steps = ["go to desk 1", "use desklamp 1"]
    assert commands(walkthrough(task("look at book under the desklamp", walkthrough=steps))) == steps


@pytest.mark.parametrize("payload", [{}, {"walkthrough": []}, {"walkthrough": "go"}, {"walkthrough": [1]}])
def test_a_task_without_a_walkthrough_is_refused(payload):
    with pytest.raises(InputError, match="walkthrough: found"):
        walkthrough(task("put a mug in cabinet", **payload))


def test_every_talent_of_the_bank_has_a_script():
    assert set(SkillBank.load(Path(__file__).parents[2] / "banks" / "alfworld").talents) == set(TALENTS)


@pytest.mark.slow
@pytest.mark.skipif(not TRAIN.is_file(), reason=f"no {TRAIN}: set TALENTRL_DATA")
def test_likely_places_are_those_counted_in_the_train_games():
    holding: Counter[tuple[str, str]] = Counter()
    places: Counter[tuple[str, str]] = Counter()
    wanted = {"desklamp"}
    with lzma.open(TRAIN, "rt", encoding="utf-8") as lines:
        for game in map(json.loads, lines):
            wanted.add(game["object_target"].lower())
            first = game["pddl_problem"].split("(:goal")[0].lower()
            place_kinds = dict(re.findall(r"\(receptacletype (\S+) (\w+)type\)", first))
            thing_kinds = dict(re.findall(r"\(objecttype (\S+) (\w+)type\)", first))
            inside = {
                (thing_kinds[thing], place)
                for thing, place in re.findall(r"\(inreceptacle (\S+) (\S+)\)", first)
                if thing in thing_kinds
            }
            for thing in {thing for thing, _ in inside}:
                places.update((thing, kind) for kind in place_kinds.values())
            holding.update((thing, place_kinds[place]) for thing, place in inside)
    shares: dict[str, dict[str, float]] = {thing: {} for thing in wanted}
    for (thing, kind), number in holding.items():
        if thing in wanted:
            share = number / places[thing, kind] / (2 if kind in CLOSED else 1)
            shares[thing] |= {kind: share} if share >= 0.01 else {}
    assert {thing: tuple(sorted(of, key=lambda kind: (-of[kind], kind))) for thing, of in shares.items()} == LIKELY
