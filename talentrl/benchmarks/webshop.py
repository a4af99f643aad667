"""WebShop as a task set: the goals of the published product files, in an order and split that the field uses.

Every draw is seeded here, where the original drew prices and price bounds unseeded. The generator is Python's own,
seeded and drawn from as verl-agent does (prices of ranges in product order, then bounds in goal order, then again
seeded for the shuffle), so `verl-agent` gives its goals under its default seed.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from talentrl.benchmarks.taskset import TASK_SCHEMA
from talentrl.benchmarks.webshop_files import Catalogue, find_file, read_mapping
from talentrl.benchmarks.webshop_goals import Goal, GoalKind, human_goals, synthetic_goals
from talentrl.benchmarks.webshop_products import read_products
from talentrl.errors import InputError


@dataclass(frozen=True)
class Order:
    """How goals are shuffled and split: the first `test` of them, then `dev`, then the rest for training."""

    seed: int
    test: int
    dev: int

    def split(self, position: int) -> str:
        """The split of the goal at `position`."""
        return "test" if position < self.test else "dev" if position < self.test + self.dev else "train"


OrderName = Literal["verl-agent", "original"]
ORDERS: dict[OrderName, Order] = {
    # verl-agent and SkillRL. They give every worker a seed of its own, so goals that one trains on are test goals of
    # another; here there is one shuffle, with the default seed.
    "verl-agent": Order(seed=42, test=500, dev=0),
    # The WebShop paper's code: 500 test, 1,000 dev, the rest for training.
    "original": Order(seed=233, test=500, dev=1000),
}


class WebShopData(NamedTuple):
    """What `load_webshop` reads."""

    tasks: pl.DataFrame
    """`TASK_SCHEMA`; a payload is a goal of `webshop_goals`, without its instruction."""
    products: pl.DataFrame
    """`PRODUCT_SCHEMA`, all that can be bought."""


def load_webshop(
    folder: Path, goals: GoalKind = "synthetic", order: OrderName = "verl-agent", catalogue: Catalogue = "small"
) -> WebShopData:
    """The tasks and products of the files in `folder`; their names are in `webshop_files.NAMES`.

    Raises:
        InputError: a file is missing, cut off or broken, or there is no goal; the message names file and field.
    """
    paths = {content: find_file(folder, content, catalogue) for content in ("products", "attributes")}
    attributes = read_mapping(paths["attributes"])
    nouns_path = _nouns_path(folder, catalogue, paths["products"])
    draw = random.Random(ORDERS[order].seed)
    products = read_products(paths["products"], attributes, read_mapping(nouns_path), draw, nouns_path)
    if goals == "human":
        path = find_file(folder, "human instructions", catalogue)
        found = list(human_goals(products, read_mapping(path), draw, path))
    else:
        path = paths["attributes"]
        found = list(synthetic_goals(products, attributes, draw, path))
    if not found:
        raise InputError(f"{path}: no instruction for any product of {paths['products'].name}, expected at least one")
    return WebShopData(_tasks(found, goals, ORDERS[order]), products)


def _tasks(goals: list[Goal], kind: GoalKind, order: Order) -> pl.DataFrame:
    random.Random(order.seed).shuffle(goals)
    rows: list[tuple[object, ...]] = [
        (f"webshop-{kind}-{position}", "webshop", order.split(position), goal.pop("instruction"), [], json.dumps(goal))
        for position, goal in enumerate(goals)
    ]
    return pl.DataFrame(rows, schema=TASK_SCHEMA, orient="row")


def _nouns_path(folder: Path, catalogue: Catalogue, products: Path) -> Path:
    try:
        return find_file(folder, "title nouns", catalogue)
    except InputError as error:
        raise InputError(
            f"{error}. The reward compares the nouns of titles; make the file with spaCy and its model: "
            f"`python -m talentrl.benchmarks.webshop_nouns {products} MODEL`"
        ) from error
