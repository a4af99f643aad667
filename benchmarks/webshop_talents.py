"""The starter talents of WebShop, measured: every talent plays the same train goals of each kind.

`python -m benchmarks.webshop_talents FOLDER`, FOLDER with WebShop's published files, prints the table of
banks/webshop/README.md. The sample is fixed: train goals in a seeded order, at most three of a product, since a few
products have hundreds. Intervals are Wilson's, 95 %.
"""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import NamedTuple

from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, Task, TaskSet
from talentrl.benchmarks.webshop import load_webshop
from talentrl.benchmarks.webshop_goals import NO_BOUND
from talentrl.benchmarks.webshop_teacher import TALENTS, play
from talentrl.environments.webshop import Shop, WebShopEnvironment
from talentrl.policy.parser import Action, parse_action

TURNS = 15
PER_PRODUCT, PER_KIND = 3, 250
KINDS = ("no option", "one option", "more options", "no price")


class Result(NamedTuple):
    """One talent on the goals of one kind; rates are means over `goals`."""

    talent: str
    kind: str
    goals: int
    score: float
    success: float
    turns: float


def kind_of(task: Task) -> str:
    """One of `KINDS`: by the number of options, unless no price is stated."""
    if task.payload["price_upper"] == NO_BOUND:
        return "no price"
    return KINDS[min(len(task.payload["options"]), 2)]


def sample(tasks: list[Task]) -> dict[str, list[Task]]:
    """Goals of each kind, few of a product."""
    by_product: Counter[str] = Counter()
    by_kind: dict[str, list[Task]] = defaultdict(list)
    for task in random.Random(0).sample(tasks, len(tasks)):
        kind = by_kind[kind_of(task)]
        if by_product[task.payload["asin"]] < PER_PRODUCT and len(kind) < PER_KIND:
            by_product[task.payload["asin"]] += 1
            kind.append(task)
    return by_kind


def commands(task: Task, shop: Shop, talent: str) -> tuple[WebShopEnvironment, list[Action]]:
    """Play to the end or the last turn; the environment as it then stands, and the actions taken."""
    environment, script, taken = WebShopEnvironment(task, shop), play(task, talent), list[Action]()
    environment.reset()
    try:
        text = next(script)
        while len(taken) < TURNS:
            action = parse_action(text)
            assert action is not None
            taken.append(action)
            step = environment.step(action)
            if step.done:
                break
            text = script.send(step.observation)
    except StopIteration:
        pass
    return environment, taken


def measure(tasks: list[Task], shop: Shop) -> Iterator[Result]:
    """All talents on all kinds."""
    by_kind = sample(tasks)
    for talent in TALENTS:
        for kind in KINDS:
            plays = [commands(task, shop, talent) for task in by_kind[kind]]
            if plays:
                metrics = [environment.outcome().metrics for environment, _ in plays]
                score, success = (sum(row[name] for row in metrics) / len(plays) for name in ("score", "success"))
                turns = sum(len(taken) for _, taken in plays) / len(plays)
                yield Result(talent, kind, len(plays), score, success, turns)


def wilson(rate: float, count: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a proportion."""
    centre = (rate + z * z / (2 * count)) / (1 + z * z / count)
    half = z * sqrt(rate * (1 - rate) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return centre - half, centre + half


def read_train(folder: Path) -> tuple[list[Task], Shop]:
    """The train goals and their shop."""
    data = load_webshop(folder)
    return TaskSet(data.tasks, PASSAGE_SCHEMA.to_frame()).split("train"), Shop.build(data.products)


def table(results: list[Result]) -> str:
    """Markdown: score, success with its interval, and turns, by talent and kind."""
    counts = {result.kind: result.goals for result in results}
    cells = {(result.talent, result.kind): cell(result) for result in results}
    lines = [
        "| talent | " + " | ".join(f"{kind} ({counts[kind]})" for kind in KINDS) + " |",
        "| --- |" + " --- |" * len(KINDS),
    ]
    lines += [f"| `{talent}` | " + " | ".join(cells[talent, kind] for kind in KINDS) + " |" for talent in TALENTS]
    return "\n".join(lines)


def cell(result: Result) -> str:
    """A cell of the table."""
    low, high = (f"{bound:.2f}".removeprefix("0") for bound in wilson(result.success, result.goals))
    success = f"{result.success:.2f}".removeprefix("0")
    return f"{result.score:.1f} · {success} [{low}, {high}] · {result.turns:.1f}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.webshop_talents FOLDER")
    print(table(list(measure(*read_train(Path(sys.argv[1]))))))
