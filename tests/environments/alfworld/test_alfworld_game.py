"""Our own engine in a kitchen small enough to follow by hand: the texts, the commands, and what is odd about them."""

import pickle
import random

import pytest
from alfworld_samples import FACTS, KITCHEN, TASK, kitchen, problem
from hypothesis import given
from hypothesis import strategies as st

from talentrl.environments.alfworld.engine import NOTHING_HAPPENS
from talentrl.environments.alfworld.game import Game
from talentrl.environments.alfworld.scene import Scene, read_scene
from talentrl.errors import InputError

NOTHING_TO_SEE = "You are in the middle of a room. Looking quickly around you, you see nothing."
SHOWING = ["help", "inventory", "look"]


def play(*commands: str) -> tuple[Game, list[str]]:
    """A game after `commands`, and what it said to each."""
    game = kitchen()
    game.reset()
    return game, [game.step(command) for command in commands]


def test_the_opening_names_what_stands_in_the_room_and_the_task():
    assert kitchen().reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a countertop 1, a drawer 2, a drawer 1, "
        "a fridge 1, a microwave 1, a shelf 2, a shelf 1, and a sinkbasin 1.\n\n"
        "Your task is to: put two apples on the shelf."
    )


def test_looking_in_the_middle_of_the_room_shows_nothing_later():
    game, (seen,) = play("look")
    assert seen == NOTHING_TO_SEE
    assert game.admissible() == [*(command for command in game.admissible() if command.startswith("go to ")), *SHOWING]


def test_things_of_a_kind_are_listed_by_id_and_numbered_backwards():
    _, (seen,) = play("go to shelf 1")
    assert seen == "You arrive at shelf 1. On the shelf 1, you see a mug 1."
    _, (seen,) = play("go to countertop 1")
    assert seen.endswith("On the countertop 1, you see a apple 2, a apple 1, a bowl 1, and a knife 1.")


def test_commands_at_a_place_of_three_receptacles():
    game, _ = play("go to countertop 1")
    assert game.admissible() == [
        *("examine countertop 1", "examine shelf 1", "examine shelf 2"),
        *("go to drawer 1", "go to drawer 2", "go to fridge 1", "go to microwave 1", "go to sinkbasin 1"),
        *SHOWING,
        *("take apple 1 from countertop 1", "take apple 2 from countertop 1", "take bowl 1 from countertop 1"),
        *("take knife 1 from countertop 1", "take mug 1 from shelf 1", "take mug 1 from shelf 2"),
    ]
    assert game.step("go to shelf 1") == NOTHING_HAPPENS


def test_opening_and_closing():
    game, seen = play("go to fridge 1", "open fridge 1", "open fridge 1", "close fridge 1", "examine fridge 1")
    assert seen == [
        "You arrive at fridge 1. The fridge 1 is closed.",
        "You open the fridge 1. The fridge 1 is open. In it, you see a bread 1.",
        NOTHING_HAPPENS,
        "You close the fridge 1.",
        "The fridge 1 is closed.",
    ]
    assert "take bread 1 from fridge 1" not in game.admissible()


def test_an_empty_receptacle():
    _, (closed, opened, looked) = play("go to drawer 1", "examine drawer 1", "look")
    assert closed == "You arrive at drawer 1. The drawer 1 is open. In it, you see nothing."
    assert opened == "The drawer 1 is open. In it, you see nothing."
    assert looked == "You are facing the drawer 2, and drawer 1. Next to it, you see nothing."


def test_one_thing_is_carried_at_a_time_and_laid_down_only_where_it_belongs():
    game, seen = play("inventory", "go to countertop 1", "take apple 1 from countertop 1", "inventory")
    assert seen[::3] == ["You are not carrying anything.", "You are carrying: a apple 1."]
    assert seen[2] == "You pick up the apple 1 from the countertop 1."
    assert not [command for command in game.admissible() if command.startswith("take ")]
    assert [command for command in game.admissible() if command.startswith("move ")] == [
        f"move apple 1 to {place}" for place in ("countertop 1", "shelf 1", "shelf 2")
    ]
    assert game.step("move apple 1 to shelf 2") == "You move the apple 1 to the shelf 2."
    assert game.step("examine shelf 2") == "On the shelf 2, you see a apple 1, and a mug 1."
    game.step("take apple 1 from shelf 2")
    game.step("go to sinkbasin 1")
    assert "move apple 1 to sinkbasin 1" not in game.admissible()


def test_cleaning_heating_and_cooling_need_no_open_door():
    game, _ = play("go to countertop 1", "take apple 2 from countertop 1")
    said = []
    for place, verb in (("sinkbasin", "clean"), ("microwave", "heat"), ("fridge", "cool"), ("microwave", "heat")):
        game.step(f"go to {place} 1")
        said += [game.step(f"{verb} apple 2 with {place} 1"), game.step("examine apple 2")]
    assert said == [
        "You clean the apple 2 using the sinkbasin 1.",
        "This is a clean apple 2.",
        "You heat the apple 2 using the microwave 1.",
        "This is a hot and clean apple 2.",
        "You cool the apple 2 using the fridge 1.",
        "This is a cool and clean apple 2.",
        "You heat the apple 2 using the microwave 1.",
        "This is a hot and clean apple 2.",
    ]


def test_only_what_can_be_is_treated():
    game, _ = play("go to countertop 1", "take apple 1 from countertop 1", "go to fridge 1")
    assert "cool apple 1 with fridge 1" not in game.admissible()


def test_what_is_in_a_closed_fridge_can_be_sliced_by_who_holds_a_knife():
    game, _ = play("go to countertop 1", "take knife 1 from countertop 1", "go to fridge 1")
    assert game.step("slice bread 1 with knife 1") == "You sliced the bread 1 with the knife 1."
    assert "slice apple 2 with knife 1" not in game.admissible()


def test_a_lamp_in_a_closed_drawer_is_switched_on_again_and_again():
    _, seen = play("go to drawer 2", "use desklamp 1", "use desklamp 1")
    assert seen == ["You arrive at drawer 2. The drawer 2 is closed.", *2 * ["You turn on the desklamp 1."]]


def test_a_bowl_shows_for_ever_what_was_in_it_first():
    game, _ = play("go to sinkbasin 1", "take egg 1 from sinkbasin 1")
    assert game.step("examine egg 1") == "There's nothing special about egg 1."
    assert game.step("examine bowl 1") == NOTHING_HAPPENS
    game, seen = play("go to countertop 1", "take bowl 1 from countertop 1", "examine bowl 1")
    assert seen[-1] == "This is a normal bowl 1. In it, you see a egg 1."


def test_a_thing_in_two_receptacles_is_taken_out_of_one():
    _, seen = play("go to shelf 1", "take mug 1 from shelf 1", "examine shelf 1", "examine shelf 2", "examine mug 1")
    assert seen[2:] == [
        "On the shelf 1, you see nothing.",
        "On the shelf 2, you see a mug 1.",
        "This is a cold mug 1.",
    ]


def test_beside_a_place_lies_what_was_moved_within_it_once_for_each_receptacle_it_left():
    game, _ = play("go to shelf 1", "take apple 1 from countertop 1", "move apple 1 to shelf 1")
    facing = "You are facing the countertop 1, shelf 2, and shelf 1. Next to it, you see "
    assert game.step("look") == facing + "a apple 1."
    game.step("take apple 1 from shelf 1")
    assert game.step("look") == facing + "nothing."
    game.step("move apple 1 to shelf 2")
    assert game.step("look") == facing + "a apple 1, and a apple 1."
    game.step("take apple 1 from shelf 2")
    game.step("move apple 1 to countertop 1")
    assert game.step("look") == facing + "a apple 1, and a apple 1."


def test_help_lists_the_verbs():
    _, (said,) = play("help")
    assert said.startswith("Available commands:\n  look:  ") and "move (object) to (receptacle):" in said


SOLUTION = [
    *("go to countertop 1", "take apple 1 from countertop 1", "move apple 1 to shelf 2"),
    *("take apple 2 from countertop 1", "move apple 2 to shelf 2"),
]


def test_the_goal_is_reached_by_the_last_command_and_left_again():
    game = kitchen()
    won = [game.won()]
    for command in [*SOLUTION, "take apple 1 from shelf 2"]:
        game.step(command)
        won.append(game.won())
    assert won == [False] * 5 + [True, False]
    game.reset()
    assert not game.won()


def test_white_space_around_a_command_is_ignored():
    _, (said,) = play("\t go to shelf 1 \n")
    assert said == "You arrive at shelf 1. On the shelf 1, you see a mug 1."


LOOKALIKES = [
    *("", " ", "go to", "go to shelf", "go to shelf 3", "Go to shelf 1", "go to shelf 1.", "go  to shelf 1"),
    *("go to shelf\u00a01", "go to \u200bshelf 1", "go to shelf 1\x00", "go to shelf \u0661", "\U0001f34e"),
    *("\ud800", "dance", "go to shelf 1\ngo to fridge 1", "take apple 1 from countertop 1", "examine agent1 "),
    *("x" * 10_000, "look " * 2000),
]


@pytest.mark.parametrize("command", LOOKALIKES, ids=lambda command: repr(command[:40]))
def test_nothing_happens_at_any_other_text(command):
    game, (said,) = play(command)
    assert said == NOTHING_HAPPENS
    assert game.admissible() == kitchen().admissible()
    assert [game.step("inventory"), game.step("look")] == ["You are not carrying anything.", NOTHING_TO_SEE]


@given(st.text() | st.sampled_from(play("go to shelf 1")[0].admissible()), st.integers(0, 9))
def test_exactly_the_admissible_commands_do_something(text, seed):
    game, draw = kitchen(), random.Random(seed)
    for _ in range(draw.randrange(20)):
        game.step(draw.choice(game.admissible()))
    admissible = game.admissible()
    assert (game.step(text) != NOTHING_HAPPENS) == (text.strip() in admissible)


@given(st.integers(0, 10_000))
def test_a_game_is_the_same_again_and_goes_on_after_pickling(seed):
    draw, first, second = random.Random(seed), kitchen(), kitchen()
    assert first.reset() == second.reset()
    for step in range(40):
        admissible = first.admissible()
        assert admissible == sorted(set(admissible)) == second.admissible()
        if step == 20:
            second = pickle.loads(pickle.dumps(second))
        command = draw.choice(admissible)
        assert first.step(command) == second.step(command) != NOTHING_HAPPENS
        assert first.won() == second.won()
    assert first.reset() == second.reset() == kitchen().reset()


def test_games_of_a_problem_share_one_scene_and_no_state():
    scene = read_scene(KITCHEN, TASK, "kitchen")
    assert read_scene("".join(KITCHEN), TASK, "kitchen") is scene is pickle.loads(pickle.dumps(scene))
    one, other = Game(scene), Game(scene)
    for command in SOLUTION:
        one.step(command)
    assert one.won() and not other.won()
    assert other.reset() == kitchen().reset()
    assert other.step("go to shelf 1") == "You arrive at shelf 1. On the shelf 1, you see a mug 1."


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (FACTS[1:], r"expected one \(atLocation agent place\), found 0"),
        ([*FACTS, "(atLocation agent1 loc_bar_2)"], r"expected one \(atLocation agent place\), found 2"),
        ([*FACTS, "(receptacleAtLocation Shelf_bar_1 loc_bar_2)"], "expected one 'receptacleatlocation' of 'shelf_"),
        ([*FACTS, "(opened Shelf_bar_1 Shelf_bar_2)"], "expected 1 objects of 'opened'"),
    ],
)
def test_a_scene_that_cannot_be_played_is_refused(facts, message):
    with pytest.raises(InputError, match=rf"^here: section \(:init …\): {message}"):
        Scene(problem(facts), TASK, "here")


def test_a_goal_that_games_do_not_track_is_refused():
    with pytest.raises(InputError, match=r"^here: section \(:goal …\): .* found 'checked'"):
        Scene(problem(goal="(checked Fridge_bar_1)"), TASK, "here")
