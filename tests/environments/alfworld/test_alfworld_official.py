"""Our own engine beside the official one: the same texts, commands and wins. See `engine_comparison`."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import engine_comparison
import pytest
from alfworld_samples import KITCHEN, TASK, kitchen, kitchen_task, random_kitchen
from engine_comparison import DATA, RULES, VALID, compare, items, official_game, our_game, remembered_parsing

from talentrl.benchmarks.alfworld import TASK_TYPES
from talentrl.environments.alfworld.environment import AlfworldEnvironment
from talentrl.environments.alfworld.official import OfficialGame, Source
from talentrl.environments.environment import Step
from talentrl.errors import InputError
from talentrl.policy.parser import Action

pytest.importorskip("textworld", reason="no official engine: pip install -e '.[alfworld]'")
pytest.importorskip("alfworld", reason="no official engine: pip install -e '.[alfworld]'")
real = pytest.mark.skipif(not RULES[0].is_file(), reason=f"no {DATA}: set TALENTRL_DATA")
SOLUTION = [
    *("go to countertop 1", "take apple 1 from countertop 1", "move apple 1 to shelf 2"),
    *("take apple 2 from countertop 1", "move apple 2 to shelf 2"),
]


@real
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_game_of_each_type_is_the_same_on_both_engines(task_type):
    item = next(item for item in items("valid_unseen") if item["task_type"] == task_type)
    with remembered_parsing():
        assert compare(item, our_game(item), official_game(item), 30, seed=1) > 30


@real
def test_the_kitchen_is_the_same_on_both_engines():
    item = {"id": "kitchen", "walkthrough": SOLUTION}
    official = OfficialGame(Source.of(KITCHEN, TASK, RULES), "kitchen")
    with remembered_parsing():
        assert compare(item, kitchen(), official, 150, seed=1) > 150
    assert compare(item, kitchen(), official, 30, seed=2) > 30


@real
@pytest.mark.parametrize("seed", range(5))
def test_kitchens_thrown_together_are_the_same_on_both_engines(seed):
    item = {"id": f"random/{seed}", "walkthrough": [], "pddl_problem": random_kitchen(seed), "task": TASK}
    with remembered_parsing():
        assert compare(item, our_game(item), official_game(item), 120, seed) > 120


def test_the_environment_plays_on_the_official_engine(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["talentrl", "evaluate"])
    environment = AlfworldEnvironment(kitchen_task(), engine="official")
    assert environment.reset() == kitchen().reset()
    assert sys.argv == ["talentrl", "evaluate"]
    assert environment.version.startswith("alfworld/textworld-1.")
    for command in SOLUTION[:3]:
        assert environment.step(Action("action", command)).valid
    assert environment.step(Action("action", "go to shelf 9")) == Step("Nothing happens.", valid=False)
    environment = pickle.loads(pickle.dumps(environment))
    done = [environment.step(Action("action", command)).done for command in SOLUTION[3:]]
    assert done == [False, True] and environment.outcome().value == 1.0
    environment.reset()
    assert environment.outcome().value == 0.0


def test_broken_problems_do_not_reach_the_planner():
    with pytest.raises(InputError, match=r"kitchen/1: section \(:goal …\) is missing"):
        AlfworldEnvironment(kitchen_task(problem=KITCHEN.split("(:goal")[0] + ")"), engine="official")


@real
@pytest.mark.slow
def test_every_valid_game_is_the_same_on_both_engines(tmp_path):
    script, record = Path(engine_comparison.__file__), tmp_path / "record.jsonl"
    root = script.parents[3]
    command = [sys.executable, str(script), "--record", str(record)]
    assert subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}).returncode == 0
    assert len(record.read_text().splitlines()) == sum(len(items(split)) for split in VALID) == 474


@real
@pytest.mark.slow
def test_a_valid_game_is_the_same_beside_the_official_engine_as_it_is():
    item = items("valid_seen")[0]
    assert compare(item, our_game(item), official_game(item), 200, seed=2) > 200
