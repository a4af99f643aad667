"""The talents of ALFWorld on real games: each wins its own type of task; the bank's README tells what was measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from talentrl.benchmarks.alfworld import TASK_TYPES, load_alfworld
from talentrl.benchmarks.alfworld_teacher import TALENTS, play, walkthrough
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, Task, TaskSet
from talentrl.environments.alfworld.environment import AlfworldEnvironment
from talentrl.policy.parser import parse_action

REPOSITORY = Path(__file__).parents[2]
DATA = Path(os.environ.get("TALENTRL_DATA", REPOSITORY / "../shared/data"))
MADE_FOR = {
    "pick_and_place_simple": "place",
    "look_at_obj_in_light": "lamp",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "pair",
}
FALL_BACKS = {"sweep", "hidden"}
TURNS = 50

pytestmark = pytest.mark.skipif(not (DATA / "alfworld").is_dir(), reason=f"no {DATA}/alfworld: set TALENTRL_DATA")


@pytest.fixture(scope="module")
def unseen() -> list[Task]:
    frame = load_alfworld(DATA / "alfworld", ("valid_unseen",))
    return TaskSet(frame, PASSAGE_SCHEMA.to_frame()).split("valid_unseen")


def won(task: Task, script, turns: int = TURNS) -> bool:
    """Whether `script` wins within `turns`."""
    environment = AlfworldEnvironment(task)
    environment.reset()
    try:
        text = next(script)
        for _ in range(turns):
            action = parse_action(text)
            assert action is not None, text
            step = environment.step(action)
            if step.done:
                break
            text = script.send(step.observation)
    except StopIteration:
        pass
    return environment.outcome().value == 1


def test_in_rooms_never_seen_a_talent_wins_its_own_type_and_seldom_another(unseen):
    shares = {
        (kind, talent): share(
            won(task, play(task, talent, AlfworldEnvironment(task).reset()))
            for task in unseen
            if task.payload["task_type"] == kind
        )
        for kind in TASK_TYPES
        for talent in TALENTS
    }
    for kind, talent in MADE_FOR.items():
        assert shares[kind, talent] >= 0.8, (kind, talent)
        for other in set(TALENTS) - FALL_BACKS - {talent}:
            assert shares[kind, other] <= shares[kind, talent] - 0.2, (kind, other)


def test_every_walkthrough_wins(unseen):
    assert all(won(task, walkthrough(task)) for task in unseen)


def share(wins) -> float:
    found = list(wins)
    return sum(found) / len(found)


@pytest.mark.slow
def test_the_banks_readme_tells_what_is_measured_on_train_games():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.alfworld_teacher"],
        cwd=REPOSITORY,
        env=os.environ | {"TALENTRL_DATA": str(DATA.resolve()), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in (REPOSITORY / "banks/alfworld/README.md").read_text(encoding="utf-8")
    within_50, within_20, turns = tables(done.stdout)
    for kind, talent in MADE_FOR.items():
        assert within_50[kind, talent] >= 80
        for other in set(TALENTS) - FALL_BACKS - {talent}:
            assert within_50[kind, other] <= within_50[kind, talent] - 20, (kind, other)
        for other in FALL_BACKS:
            assert within_20[kind, other] <= within_20[kind, talent] - 10, (kind, other)
            assert turns[kind, other] >= 1.5 * turns[kind, talent], (kind, other)


def tables(text: str) -> list[dict[tuple[str, str], float]]:
    """The Markdown tables of `text`, by type of task and talent."""
    found: list[dict[tuple[str, str], float]] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "talent":
            kinds, table = cells[1:], {}
            found.append(table)
        elif len(cells) > 1 and not cells[0].startswith("-"):
            table |= {(kind, cells[0]): float(cell) for kind, cell in zip(kinds, cells[1:], strict=True)}
    return found
