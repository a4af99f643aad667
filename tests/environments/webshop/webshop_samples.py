"""Small shops and goals for the tests of WebShop, and where the real files are."""

import os
from pathlib import Path

import polars as pl

from talentrl.benchmarks.taskset import Task
from talentrl.benchmarks.webshop_products import PRODUCT_SCHEMA
from talentrl.environments.webshop import Shop, WebShopEnvironment
from talentrl.environments.webshop.catalogue import Catalogue, Product
from talentrl.environments.webshop.reward import Goal
from talentrl.policy.parser import Action

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[3] / "../shared/data"))
REAL = DATA / "webshop"


def row(asin: str = "B000000001", **changes) -> dict:
    """A row of PRODUCT_SCHEMA: a red or blue cotton shirt in two sizes."""
    return {
        "asin": asin,
        "title": "Cotton Shirt",
        "description": "Soft to wear.",
        "features": ["Made of cotton ", "Machine wash"],
        "price": 12.5,
        "price_tag": "$12.5",
        "category": "fashion",
        "query": "men's shirts",
        "product_category": "Clothing › Men › Shirts",
        "attributes": ["slim fit"],
        "options": [{"name": "color", "values": ["red", "blue"]}, {"name": "size", "values": ["s", "x | l"]}],
        "title_nouns": ["cotton", "shirt"],
    } | changes


def frame(*rows: dict) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=PRODUCT_SCHEMA)


def product(**changes) -> Product:
    return Catalogue(frame(row(**changes))).product(0)


def goal(wanted: Product | None = None, attributes=("slim fit",), options=(), price_upper=20.0) -> Goal:
    return Goal(wanted or product(), tuple(attributes), tuple(options), price_upper)


def task(asin: str = "B000000001", **payload) -> Task:
    values = {"asin": asin, "attributes": ["slim fit"], "options": {"color": "red", "size": "s"}, "price_upper": 20.0}
    return Task("webshop-synthetic-0", "webshop", "train", "Find me slim fit shirts", (), values | payload)


def many(count: int) -> Shop:
    """A shop of `count` shirts with the ids B000000000, B000000001, …"""
    return Shop.build(frame(*(row(f"B{number:09d}") for number in range(count))))


def act(environment: WebShopEnvironment, *commands: str) -> list[str]:
    """Take the commands, all valid; what they show."""
    shown = []
    for command in commands:
        step = environment.step(Action("action", command))
        assert step.valid, (command, step.observation)
        shown.append(step.observation)
    return shown
