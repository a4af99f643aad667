"""Speed and memory of the environments: `python -m benchmarks.environments [NAME …]`, by default all that it can.

Reads the benchmarks' files in the folder TALENTRL_DATA (default ../shared/data). Each measurement prints one line a
figure; where a peer is measured too it plays the same games and commands in the same run, and a ratio is printed.
"""

import os
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

from talentrl.benchmarks.alfworld import TASK_TYPES, load_alfworld
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, Task, TaskSet
from talentrl.environments.alfworld.engine import Engine
from talentrl.environments.alfworld.environment import AlfworldEnvironment
from talentrl.environments.alfworld.game import Game
from talentrl.environments.alfworld.official import OfficialGame, Source
from talentrl.environments.alfworld.scene import read_scene
from talentrl.errors import InputError
from talentrl.policy.parser import Action

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[1] / "../shared/data"))


def main() -> None:
    """Run the measurements that are named."""
    for name in sys.argv[1:] or MEASUREMENTS:
        try:
            for line in MEASUREMENTS[name]():
                print(f"{name}: {line}", flush=True)
        except InputError as error:
            print(f"{name}: skipped: {error}")


def seconds(action: Callable[[], object]) -> float:
    """CPU time of `action`, which other work on the machine changes little."""
    began = time.process_time()
    action()
    return time.process_time() - began


def alfworld_tasks() -> list[Task]:
    """The games of valid_seen."""
    frame = load_alfworld(DATA / "alfworld", ["valid_seen"])
    return TaskSet(frame, PASSAGE_SCHEMA.to_frame()).split("valid_seen")


def alfworld_engines() -> Iterator[str]:
    """Our engine beside the official one: load, reset and steps (with the list of commands) of a game a type."""
    tasks = [next(task for task in alfworld_tasks() if task.payload["task_type"] == kind) for kind in TASK_TYPES]

    def ours(task: Task) -> Engine:
        read_scene.cache_clear()
        return Game(read_scene(task.payload["problem"], task.instruction, task.task_id))

    def official(task: Task) -> Engine:
        return OfficialGame(Source.of(task.payload["problem"], task.instruction), task.task_id)

    official(tasks[0])  # the first game also imports
    medians = {}
    for name, engine, repeats in (("own", ours, 20), ("official", official, 1)):
        figures = [_played(engine, task, repeats) for task in tasks]
        medians[name] = [statistics.median(column) for column in zip(*figures, strict=True)]
    for what, own, peer in zip(("load", "reset", "step"), medians["own"], medians["official"], strict=True):
        yield f"{what}: own {own * 1e3:,.4f} ms, official {peer * 1e3:,.1f} ms, ratio {peer / own:,.0f}x"
    yield f"steps a second: own {1 / medians['own'][2]:,.0f}, official {1 / medians['official'][2]:,.1f}"


def _played(engine: Callable[[Task], Engine], task: Task, repeats: int) -> tuple[float, float, float]:
    """Seconds of making the game, of a reset, and of a command with the list of those admissible after it."""
    commands = [*task.payload["walkthrough"], *("look", "inventory", "go to nowhere"), *task.payload["walkthrough"]]
    games: list[Engine] = []

    def play() -> None:
        for command in commands:
            games[-1].step(command)
            games[-1].admissible()
            games[-1].won()

    figures = []
    for _ in range(repeats):
        load = seconds(lambda: games.append(engine(task)))
        games[-1].step("look")
        figures.append((load, seconds(games[-1].reset), seconds(play) / len(commands)))
    load, reset, step = (statistics.median(column) for column in zip(*figures, strict=True))
    return load, reset, step


def alfworld_memory() -> Iterator[str]:
    """Python memory of live games, without their problems' texts: in scenes of their own, then more in one scene."""
    tasks = alfworld_tasks()[:64]
    read_scene.cache_clear()
    tracemalloc.start()
    games = [_random_play(AlfworldEnvironment(task), 20) for task in tasks]
    own_scene = tracemalloc.get_traced_memory()[0] / len(games)
    more = [_random_play(AlfworldEnvironment(tasks[0]), 20) for _ in range(64)]
    shared = tracemalloc.get_traced_memory()[0] - own_scene * len(games)
    tracemalloc.stop()
    another = shared / len(more)
    yield f"a live game: {own_scene / 1e6:.3f} MB with its scene, {another / 1e6:.3f} MB in a scene of others"


def alfworld_side_by_side() -> Iterator[str]:
    """64 games in turns in one process: random admissible commands, 50 a game."""
    environments = [AlfworldEnvironment(task) for task in alfworld_tasks()[:64]]
    opened = seconds(lambda: [environment.reset() for environment in environments])
    draw, steps = random.Random(0), 50 * len(environments)

    def play() -> None:
        for environment in islice(cycle(environments), steps):
            environment.step(Action("action", draw.choice(environment.admissible())))

    yield f"64 games side by side: {steps / seconds(play):,.0f} steps/s, all reset in {opened * 1000:.1f} ms"


def _random_play(environment: AlfworldEnvironment, steps: int) -> AlfworldEnvironment:
    draw = random.Random(0)
    environment.reset()
    for _ in range(steps):
        environment.step(Action("action", draw.choice(environment.admissible())))
    return environment


MEASUREMENTS: dict[str, Callable[[], Iterator[str]]] = {
    "alfworld-engines": alfworld_engines,
    "alfworld-memory": alfworld_memory,
    "alfworld-side-by-side": alfworld_side_by_side,
}

if __name__ == "__main__":
    main()
