"""ALFWorld as an environment, on the kitchen and on the real games."""

import pickle
import random
import sys

import pytest
from alfworld_samples import kitchen_task
from engine_comparison import DATA, VALID

from talentrl.benchmarks.alfworld import load_alfworld
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, Task, TaskSet
from talentrl.environments.alfworld.environment import AlfworldEnvironment
from talentrl.environments.environment import Outcome, Step
from talentrl.errors import InputError
from talentrl.policy.parser import Action

real = pytest.mark.skipif(not (DATA / "valid_seen.jsonl.xz").is_file(), reason=f"no {DATA}: set TALENTRL_DATA")


def act(environment: AlfworldEnvironment, *commands: str) -> list[Step]:
    return [environment.step(Action("action", command)) for command in commands]


SOLUTION = [
    *("go to countertop 1", "take apple 1 from countertop 1", "move apple 1 to shelf 2"),
    *("take apple 2 from countertop 1", "move apple 2 to shelf 2"),
]


def test_an_episode_ends_when_the_goal_is_reached():
    environment = AlfworldEnvironment(kitchen_task())
    assert environment.reset().endswith("Your task is to: put two apples on the shelf.")
    steps = act(environment, *SOLUTION)
    assert steps[1] == Step("You pick up the apple 1 from the countertop 1.")
    assert [step.done for step in steps] == [False] * 4 + [True]
    assert environment.outcome() == Outcome(1.0, {"success": 1.0, "success/pick_two_obj_and_place": 1.0})


def test_an_unfinished_episode_failed():
    environment = AlfworldEnvironment(kitchen_task())
    act(environment, *SOLUTION[:-1])
    assert environment.outcome() == Outcome(0.0, {"success": 0.0, "success/pick_two_obj_and_place": 0.0})


ODD = ["take apple 1 from countertop 1", "x" * 10_000, "go to shelf 1\x07", "\u202ego to shelf 1"]


@pytest.mark.parametrize("command", ODD, ids=lambda command: repr(command[:40]))
def test_an_inadmissible_command_costs_a_turn_and_changes_nothing(command):
    environment = AlfworldEnvironment(kitchen_task())
    environment.reset()
    before = environment.admissible()
    assert act(environment, command) == [Step("Nothing happens.", valid=False)]
    assert environment.admissible() == before == sorted(before)


@pytest.mark.parametrize("action", [None, Action("search", "apples"), Action("answer", "go to shelf 1")])
def test_a_turn_without_a_command_is_told_what_to_write(action):
    step = AlfworldEnvironment(kitchen_task()).step(action)
    assert step == Step("No action found. Write <action>command</action>.", valid=False)


def test_a_reset_begins_the_same_game_again():
    environment = AlfworldEnvironment(kitchen_task())
    opening = environment.reset()
    act(environment, *SOLUTION)
    assert environment.reset() == opening
    assert environment.outcome().value == 0.0
    assert act(environment, *SOLUTION)[-1].done


def test_an_environment_is_pickled_in_the_middle_of_a_game():
    environment = AlfworldEnvironment(kitchen_task())
    act(environment, *SOLUTION[:3])
    copy = pickle.loads(pickle.dumps(environment))
    assert copy.version == environment.version
    assert act(copy, *SOLUTION[3:])[-1].done
    assert environment.outcome().value == 0.0


def test_the_version_names_engine_and_data():
    version = AlfworldEnvironment(kitchen_task()).version
    assert version.startswith("alfworld/talentrl-1 ")
    other = kitchen_task(problem=kitchen_task().payload["problem"] + "\n")
    assert AlfworldEnvironment(other).version != version


@pytest.mark.parametrize("field", ["problem", "task_type"])
@pytest.mark.parametrize("value", [None, "", 3])
def test_a_payload_without_a_game_is_refused(field, value):
    with pytest.raises(InputError, match=f"task kitchen/1: payload field '{field}': expected a text"):
        AlfworldEnvironment(kitchen_task(**{field: value}))


def test_a_broken_problem_is_refused_by_the_name_of_its_task():
    with pytest.raises(InputError, match=r"^kitchen/1: the text ends inside"):
        AlfworldEnvironment(kitchen_task(problem=kitchen_task().payload["problem"][:900]))


@pytest.mark.parametrize("package", ["textworld", "alfworld"])
def test_without_the_official_engine_its_extra_is_named(monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=r"pip install 'talentrl\[alfworld\]'"):
        AlfworldEnvironment(kitchen_task(), engine="official")


def tasks_of(*splits: str) -> list[Task]:
    tasks = TaskSet(load_alfworld(DATA, splits), PASSAGE_SCHEMA.to_frame())
    return [task for split in splits for task in tasks.split(split)]


@pytest.fixture(scope="module")
def valid_tasks() -> list[Task]:
    return tasks_of(*VALID)


def assert_won_by_the_last_command(task: Task) -> None:
    environment = AlfworldEnvironment(task)
    assert environment.reset().endswith(f"Your task is to: {task.instruction}.")
    steps = act(environment, *task.payload["walkthrough"])
    assert all(step.valid for step in steps), task.task_id
    assert [step.done for step in steps] == [False] * (len(steps) - 1) + [True], task.task_id
    assert environment.outcome().value == 1.0


@real
def test_every_valid_walkthrough_wins_with_its_last_command(valid_tasks):
    assert len(valid_tasks) == 474
    for task in valid_tasks:
        assert_won_by_the_last_command(task)


@real
@pytest.mark.slow
def test_every_train_walkthrough_wins_with_its_last_command():
    for task in tasks_of("train"):
        assert_won_by_the_last_command(task)


@real
def test_games_side_by_side_do_not_touch_each_other(valid_tasks):
    tasks = valid_tasks[:32] * 2
    alone, together = [], []
    for task in tasks:
        environment = AlfworldEnvironment(task)
        environment.reset()
        alone.append(act(environment, *task.payload["walkthrough"]))
    environments = [AlfworldEnvironment(task) for task in tasks]
    for environment in environments:
        environment.reset()
    together = [[] for _ in tasks]
    for turn in range(max(len(task.payload["walkthrough"]) for task in tasks)):
        for task, environment, steps in zip(tasks, environments, together, strict=True):
            steps += act(environment, *task.payload["walkthrough"][turn : turn + 1])
    assert together == alone


@real
def test_random_commands_do_what_the_list_says(valid_tasks):
    for task in valid_tasks[::40]:
        environment, draw = AlfworldEnvironment(task), random.Random(task.task_id)
        environment.reset()
        for _ in range(60):
            admissible = environment.admissible()
            assert act(environment, draw.choice(admissible))[0].valid
