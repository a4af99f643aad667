"""ALFWorld as an environment: `<action>COMMAND</action>` moves the game, reaching the goal ends the episode."""

from collections.abc import Callable
from typing import Literal

from talentrl.benchmarks.taskset import Task
from talentrl.environments.alfworld.engine import NOTHING_HAPPENS, Engine
from talentrl.environments.alfworld.game import Game
from talentrl.environments.alfworld.official import OfficialGame, Source
from talentrl.environments.alfworld.scene import read_scene
from talentrl.environments.environment import Outcome, Step
from talentrl.errors import InputError
from talentrl.files import sha256
from talentrl.policy.parser import Action

EngineName = Literal["own", "official"]


def _own(problem: str, task: Task) -> Engine:
    return Game(read_scene(problem, task.instruction, task.task_id))


def _official(problem: str, task: Task) -> Engine:
    return OfficialGame(Source.of(problem, task.instruction), task.task_id)


_ENGINES: dict[EngineName, Callable[[str, Task], Engine]] = {"own": _own, "official": _official}


class AlfworldEnvironment:
    """One game. The return is 1 when its goal is reached; the game is the same at every reset."""

    def __init__(self, task: Task, engine: EngineName = "own") -> None:
        """Work on `task`, whose payload has the PDDL text `problem` and the name `task_type`.

        Raises:
            InputError: the payload lacks a field, the problem is broken, or the package of the engine is missing.
        """
        problem, self._task_type = (_text(task, field) for field in ("problem", "task_type"))
        self._game = _ENGINES[engine](problem, task)
        self.version = f"alfworld/{self._game.version} {sha256(problem.encode())[:12]}"

    def reset(self) -> str:
        """See `Environment.reset`: what stands in the room, and the task."""
        return self._game.reset()

    def step(self, action: Action | None) -> Step:
        """See `Environment.step`."""
        if action is None or action.kind != "action":
            return Step("No action found. Write <action>command</action>.", valid=False)
        observation = self._game.step(action.argument)
        if observation == NOTHING_HAPPENS:
            return Step(observation, valid=False)
        return Step("", done=True) if self._game.won() else Step(observation)

    def admissible(self) -> list[str]:
        """See `Environment.admissible`."""
        return self._game.admissible()

    def outcome(self) -> Outcome:
        """Success as the return, and again under the name of the task's type, so that it can be averaged by type."""
        success = float(self._game.won())
        return Outcome(success, {"success": success, f"success/{self._task_type}": success})


def _text(task: Task, field: str) -> str:
    value = task.payload.get(field)
    if not isinstance(value, str) or not value:
        raise InputError(f"task {task.task_id}: payload field {field!r}: expected a text, found {value!r:.60}")
    return value
