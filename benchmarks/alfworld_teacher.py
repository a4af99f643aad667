"""How the scripted teacher of each talent does on each type of ALFWorld task, as Markdown tables.

`python -m benchmarks.alfworld_teacher [GAMES]` plays all talents on GAMES (100) train games of each type, drawn with
seed 0, at most 50 turns each. The games are read from `alfworld/` under TALENTRL_DATA (../shared/data).
"""

import json
import os
import random
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from talentrl.benchmarks.alfworld import TASK_TYPES, load_alfworld
from talentrl.benchmarks.alfworld_teacher import TALENTS, play, walkthrough
from talentrl.benchmarks.taskset import Task
from talentrl.environments.alfworld.environment import AlfworldEnvironment
from talentrl.policy.parser import parse_action

TURNS, FEW_TURNS = 50, 20
FALL_BACKS = ("sweep", "hidden")


@dataclass(frozen=True)
class Played:
    """How one play of a task ended, and after how many turns."""

    won: bool
    turns: int


def main() -> None:
    """Play and print."""
    games = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    data = Path(os.environ.get("TALENTRL_DATA", "../shared/data"))
    plays = {kind: [play_all(task) for task in tasks] for kind, tasks in sample(data / "alfworld", games).items()}
    print(f"{games} train games of each type, seed 0.")
    print(f"\nGames won within {TURNS} turns:\n\n{table(plays, lambda cell: str(sum(won(cell, TURNS))))}")
    print(f"\nGames won within {FEW_TURNS} turns:\n\n{table(plays, lambda cell: str(sum(won(cell, FEW_TURNS))))}")
    print(f"\nMean turns, of won and lost games:\n\n{table(plays, mean_turns)}")
    print("\nGames on which a fall-back needed fewer turns than every other talent: ", end="")
    print(", ".join(f"{kind} {sum(map(is_upset, of_kind))}" for kind, of_kind in plays.items()) + ".")


def sample(folder: Path, games: int) -> dict[str, list[Task]]:
    """For each type of task, `games` train games."""
    by_type: dict[str, list[Task]] = {kind: [] for kind in TASK_TYPES}
    for row in load_alfworld(folder, ("train",)).iter_rows(named=True):
        payload = json.loads(row["payload"])
        by_type[payload["task_type"]].append(
            Task(row["task_id"], row["benchmark"], row["split"], row["instruction"], (), payload)
        )
    return {kind: random.Random(0).sample(tasks, games) for kind, tasks in by_type.items()}


def play_all(task: Task) -> dict[str, Played]:
    """Every talent, and the game's walkthrough, on one task."""
    environment = AlfworldEnvironment(task)
    plays = {talent: run(environment, play(task, talent, environment.reset())) for talent in TALENTS}
    return plays | {"(walkthrough)": run(environment, walkthrough(task))}


def run(environment: AlfworldEnvironment, script: Generator[str, str, None]) -> Played:
    """Let `script` act in `environment` from the beginning."""
    environment.reset()
    turns, done = 0, False
    with suppress(StopIteration):  # a script ends when it has nothing left to do
        text = next(script)
        while turns < TURNS and not done:
            step = environment.step(parse_action(text))
            turns, done = turns + 1, step.done
            text = text if done else script.send(step.observation)
    return Played(environment.outcome().value == 1, turns)


def won(cell: list[Played], turns: int) -> Iterator[bool]:
    """Of each play: whether it was won within `turns`."""
    return (played.won and played.turns <= turns for played in cell)


def mean_turns(cell: list[Played]) -> str:
    return f"{sum(played.turns for played in cell) / len(cell):.1f}"


def is_upset(played: dict[str, Played]) -> bool:
    """Whether a fall-back won in fewer turns than all that are none."""
    turns = {talent: each.turns for talent, each in played.items() if each.won and talent in TALENTS}
    others = [count for talent, count in turns.items() if talent not in FALL_BACKS]
    return min(turns.get(talent, TURNS + 1) for talent in FALL_BACKS) < min(others, default=TURNS + 1)


def table(plays: dict[str, list[dict[str, Played]]], show: Callable[[list[Played]], str]) -> str:
    """Talents × types of task; `show` tells a cell from its plays."""
    lines = [f"| talent | {' | '.join(plays)} |", "|---" * (len(plays) + 1) + "|"]
    for talent in (*TALENTS, "(walkthrough)"):
        cells = [show([played[talent] for played in of_kind]) for of_kind in plays.values()]
        lines.append(f"| {talent} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
