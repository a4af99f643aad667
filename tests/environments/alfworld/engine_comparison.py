"""Plays games on both engines of ALFWorld and compares every observation, every list of commands, every win.

    PYTHONPATH=. python tests/environments/alfworld/engine_comparison.py --record FILE [--games N] [--commands 200]

plays every game of the three valid splits (those of the folder TALENTRL_DATA) through the expert's walkthrough and
through random commands, one game after the other. It adds a line a game to FILE, skips the games that FILE has
already, and fails if a game differs. All 474 games take some 25 minutes of CPU time.

The official engine spends most of its time in parsing the same rules over and over and in copying. `remembered_parsing`
remembers what its pure functions return: the parsed grammar rules and queries, the planner's translation of a problem;
and lets it share values that nobody changes. `--plain` compares without.
"""

import argparse
import contextlib
import copy
import json
import lzma
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

from talentrl.environments.alfworld.engine import Engine
from talentrl.environments.alfworld.game import Game
from talentrl.environments.alfworld.official import OfficialGame, Source
from talentrl.environments.alfworld.scene import read_scene

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[3] / "../shared/data")) / "alfworld"
RULES = (DATA / "alfred_game.pddl", DATA / "alfred_game.twl2")
VALID = ("valid_seen", "valid_unseen", "valid_train")


def items(split: str) -> list[dict[str, Any]]:
    """The games of a split as the files have them."""
    with lzma.open(DATA / f"{split}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def our_game(item: dict[str, Any]) -> Game:
    return Game(read_scene(item["pddl_problem"], item["task"], item["id"]))


def official_game(item: dict[str, Any]) -> OfficialGame:
    return OfficialGame(Source.of(item["pddl_problem"], item["task"], RULES), item["id"])


def compare(item: dict[str, Any], ours: Engine, official: Engine, commands: int, seed: int) -> int:
    """Play a game on both: the walkthrough, then from the start `commands` random commands.

    Returns:
        The number of states that were compared.

    Raises:
        AssertionError: the engines differ, or the walkthrough does not win; the message holds the commands so far.
    """
    states = 0
    draw = random.Random(f"{seed} {item['id']}")
    for script in (item["walkthrough"], None):
        history: list[str] = []
        said, expected = ours.reset(), official.reset()
        while True:
            told = f"{item['id']} after {history}"
            assert said == expected, f"{told}: observation {said!r}, official {expected!r}"
            choices = official.admissible()
            assert ours.admissible() == choices, f"{told}: commands differ: {set(ours.admissible()) ^ set(choices)}"
            assert ours.won() == official.won(), f"{told}: won {ours.won()}, official {official.won()}"
            states += 1
            if len(history) == (commands if script is None else len(script)):
                break
            command = random_command(draw, choices) if script is None else script[len(history)]
            history.append(command)
            said, expected = ours.step(command), official.step(command)
        assert not script or ours.won(), f"{item['id']}: the walkthrough does not win"
    return states


def random_command(draw: random.Random, admissible: list[str]) -> str:
    """An admissible command, rather one that changes something, or something that looks like one, or nonsense."""
    away = [command for command in admissible if command.startswith("go to ")]
    appliances = [command for command in away if re.search("fridge|microwave|sink|desk|sidetable|counter", command)]
    change = [command for command in admissible if not re.match("go to|look|help|inventory|examine", command)]
    some = draw.choice(admissible)
    odd = [
        "",
        "dance",
        f"  {some}\n",
        some.upper(),
        some.replace(" ", "  "),
        f"{some}.",
        "go to \u200bfridge 1",
        "x" * 10_000,
    ]
    choices = [
        (40, change),
        (10, ["look"]),
        (15, appliances),
        (18, admissible),
        (14, [_mixed(draw, admissible)]),
        (3, odd),
    ]
    weights, lists = zip(*[(weight, commands) for weight, commands in choices if commands], strict=True)
    return draw.choice(draw.choices(lists, weights)[0])


def _mixed(draw: random.Random, admissible: list[str]) -> str:
    """One command with a word, or the name at the end, of another."""
    words, others = draw.choice(admissible).split(), draw.choice(admissible).split()
    if draw.random() < 0.5:
        return " ".join([*words[:-2], *others[-2:]])
    words[draw.randrange(len(words))] = draw.choice(others)
    return " ".join(words)


@contextlib.contextmanager
def remembered_parsing() -> Iterator[None]:
    """Make the official engine remember what it parses: see the module's docstring."""
    from textworld.envs.pddl import logic, textgen
    from textworld.generator.game import EntityInfo
    from textworld.logic import Placeholder, Rule, Variable

    parse = lru_cache(None)(textgen._parse_and_convert)
    translate = lru_cache(4)(logic.fast_downward.pddl2sas)

    def itself(value: object, memory: object) -> object:
        return value

    with contextlib.ExitStack() as stack:

        def replace(owner: Any, name: str, value: object) -> None:
            stack.enter_context(mock.patch.object(owner, name, value, create=True))

        replace(textgen, "_parse_and_convert", lambda text, **options: copy.deepcopy(parse(text, **options)))
        replace(Rule, "parse_conjunctive_query", staticmethod(lru_cache(None)(Rule.parse_conjunctive_query)))
        replace(logic.fast_downward, "pddl2sas", translate)
        for shared in (EntityInfo, Placeholder, Variable):
            replace(shared, "__deepcopy__", itself)
        yield


def play(item: dict[str, Any], commands: int, seed: int, plain: bool) -> dict[str, Any]:
    """Compare one game, for a record."""
    began, states, error = time.process_time(), 0, None
    with contextlib.nullcontext() if plain else remembered_parsing():
        try:
            states = compare(item, our_game(item), official_game(item), commands, seed)
        except AssertionError as difference:
            error = str(difference)
    seconds = round(time.process_time() - began, 2)
    return {"id": item["id"], "split": item["split"], "states": states, "cpu_s": seconds, "error": error}


def main() -> None:
    """Compare the games that the record lacks."""
    parser = argparse.ArgumentParser(description="compare the two engines of ALFWorld")
    parser.add_argument("--record", type=Path, required=True, help="JSONL file, a line a game")
    parser.add_argument("--games", type=int, help="at most so many of each split")
    parser.add_argument("--commands", type=int, default=200, help="random commands a game")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="leave the official engine as it is")
    options = parser.parse_args()
    done = {json.loads(line)["id"] for line in options.record.open()} if options.record.exists() else set()
    found = [item for split in VALID for item in items(split)[: options.games] if item["id"] not in done]
    random.Random(options.seed).shuffle(found)  # so that a run that is cut off has games of all kinds
    failed = 0
    # The official engine never gives memory back, so a process plays some games and makes place for the next.
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=20)
    with pool, options.record.open("a") as record:
        for number, item in enumerate(found, 1):
            result = pool.submit(play, item, options.commands, options.seed, options.plain).result()
            record.write(json.dumps(result) + "\n")
            record.flush()
            failed += result["error"] is not None
            print(f"{number}/{len(found)} {result}", flush=True)
    sys.exit(f"{failed} games differ" if failed else 0)


if __name__ == "__main__":
    main()
