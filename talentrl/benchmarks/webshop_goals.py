"""WebShop's goals: what a shopper is asked to buy, made from products or taken from people's instructions.

A synthetic goal is one combination of a product's options; a human goal is one person's sentence. The price bound
of a goal is the larger of two draws from the first four multiples of ten dollars above the product's price.
"""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import polars as pl

from talentrl.errors import InputError

GoalKind = Literal["synthetic", "human"]
NO_BOUND = 1_000_000
"""Bound in dollars of a goal that states none."""
_BOUNDS = [10.0 * step for step in range(1, 100)]

Goal = dict[str, Any]
"""`instruction`, and what the reward needs: see `goal_record`."""


def synthetic_goals(
    products: pl.DataFrame, attributes: dict[str, Any], draw: random.Random, path: Path
) -> Iterator[Goal]:
    """The goals of every product that has an instruction in `attributes`, read from `path`: one for each combination.

    Raises:
        InputError: an instruction comes without attributes.
    """
    for product in products.iter_rows(named=True):
        entry = attributes.get(product["asin"], {})
        instruction = entry.get("instruction")
        if instruction is None:
            continue
        wanted = entry.get("instruction_attributes")
        if not wanted:
            raise InputError(f"{path}: product {product['asin']}: 'instruction_attributes' is empty, expected texts")
        bound, price_text = price_bound(product["price"], draw)
        options = sorted((option["name"], option["values"]) for option in product["options"])
        for values in itertools.product(*(values for _, values in options)):
            chosen = {name: value for (name, _), value in zip(options, values, strict=True)}
            option_text = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
            text = instruction + (f" with {option_text}" if option_text else "") + price_text
            yield goal_record(product, text, wanted, chosen, bound)


def human_goals(
    products: pl.DataFrame, instructions: dict[str, Any], draw: random.Random, path: Path
) -> Iterator[Goal]:
    """The goals of people's `instructions`, read from `path`; those without attributes are left out, as published.

    Raises:
        InputError: an instruction lacks a field.
    """
    for product in products.iter_rows(named=True):
        for entry in instructions.get(product["asin"], []):
            try:
                text, wanted, options = (
                    entry[field] for field in ("instruction", "instruction_attributes", "instruction_options")
                )
            except (KeyError, TypeError) as error:
                raise InputError(f"{path}: product {product['asin']}: expected the field {error}") from error
            if wanted:
                bound, price_text = price_bound(product["price"], draw)
                yield goal_record(product, text.strip(".") + price_text, wanted, options, bound)


def price_bound(price: float, draw: random.Random) -> tuple[float, str]:
    """The bound in dollars for a product of `price`, and the words that state it; above 970 dollars there is none."""
    bounds = [bound for bound in _BOUNDS if bound > price][:4]
    if len(bounds) < 2:
        return NO_BOUND, ""
    bound = max(draw.sample(bounds, 2))
    return bound, f", and price lower than {bound:.2f} dollars"


def goal_record(
    product: dict[str, Any], instruction: str, attributes: list[str], options: dict[str, str] | list[str], bound: float
) -> Goal:
    """A goal as it is stored; `options` is a mapping in synthetic goals and a list in human ones, and stays so."""
    return {
        "instruction": instruction,
        "asin": product["asin"],
        "category": product["category"],
        "attributes": attributes,
        "options": options,
        "price_upper": bound,
    }
