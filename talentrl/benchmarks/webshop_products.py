"""WebShop's products as a frame: price, options and attributes as the published loader makes them.

Data: WebShop (Yao et al., 2022, https://webshop-pnlp.github.io, MIT). What the loader does and the data do not
say: no price means 100 dollars; a price range is shown as it is, but the product costs one amount drawn from it;
option values are lower case with " | " for "/"; a product without known attributes has the attribute DUMMY_ATTR.
"""

import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from talentrl.benchmarks.webshop_files import read_objects
from talentrl.errors import InputError

PRODUCT_SCHEMA = pl.Schema(
    {
        "asin": pl.String(),
        "title": pl.String(),
        "description": pl.String(),
        "features": pl.List(pl.String()),
        "price": pl.Float64(),  # dollars, what a purchase is judged by
        "price_tag": pl.String(),  # what a page shows
        "category": pl.String(),
        "query": pl.String(),
        "product_category": pl.String(),
        "attributes": pl.List(pl.String()),
        "options": pl.List(pl.Struct({"name": pl.String(), "values": pl.List(pl.String())})),
        "title_nouns": pl.List(pl.String()),  # lower case, in order, with repeats
    }
)
NO_PRICE = 100.0
NO_ATTRIBUTES = ["DUMMY_ATTR"]
_BATCH = 20_000


def read_products(
    path: Path, attributes: dict[str, Any], nouns: dict[str, Any], draw: random.Random, nouns_path: Path
) -> pl.DataFrame:
    """The products of a file in its order, as `PRODUCT_SCHEMA`; ids that are no ASIN and repeats are left out.

    Args:
        path: the product file.
        attributes: ASIN → `{attributes: […]}`.
        nouns: ASIN → nouns of the title.
        draw: draws the price of a product with a price range, in file order.
        nouns_path: the file of `nouns`, for messages.

    Raises:
        InputError: the file is unreadable, or a product lacks a field; the message names both.
    """
    rows = _rows(path, attributes, nouns, draw, nouns_path)
    batches = []
    while batch := list(islice(rows, _BATCH)):
        batches.append(pl.DataFrame(batch, schema=PRODUCT_SCHEMA, orient="row"))
    if not batches:
        raise InputError(f"{path}: no product with an ASIN, expected at least one")
    return pl.concat(batches, rechunk=True)


def _rows(
    path: Path, attributes: dict[str, Any], nouns: dict[str, Any], draw: random.Random, nouns_path: Path
) -> Iterator[tuple[Any, ...]]:
    seen: set[str] = set()
    for number, item in enumerate(read_objects(path), start=1):
        where = f"{path}: item {number}"
        asin = _text(item, "asin", where)
        if asin == "nan" or len(asin) > 10 or asin in seen:
            continue
        seen.add(asin)
        if asin not in nouns:
            raise InputError(f"{nouns_path}: no nouns of product {asin}, expected those of all in {path.name}")
        prices, tag = read_prices(item.get("pricing"), where)
        yield (
            asin,
            _text(item, "name", where),
            _text({"full_description": item.get("full_description") or ""}, "full_description", where),
            _texts(_features(item), "small_description", where),
            prices[0] if len(prices) == 1 else draw.uniform(*prices),
            tag,
            _text(item, "category", where),
            _text(item, "query", where).lower().strip(),
            _text(item, "product_category", where),
            _texts(attributes.get(asin, {}).get("attributes", NO_ATTRIBUTES), "attributes", f"product {asin}"),
            read_options(item.get("customization_options"), where),
            _texts(nouns[asin], asin, str(nouns_path)),
        )


def read_prices(pricing: str | None, where: str) -> tuple[tuple[float, ...], str]:
    """One price or the two ends of a range, in dollars, and the tag that pages show.

    >>> read_prices("$1,299.5", "file")
    ((1299.5,), '$1299.5')
    """
    if not pricing:
        return (NO_PRICE,), f"${NO_PRICE}"
    try:
        prices = tuple(float(re.sub(r"[^\d.]", "", part)) for part in str(pricing).split("$")[1:])[:2]
    except ValueError:
        prices = ()
    if not prices:
        raise InputError(f"{where}: field 'pricing': expected amounts like '$9.99' or nothing, found {pricing!r:.60}")
    return prices, " to ".join(f"${price}" for price in prices)


def read_options(options: Any, where: str) -> list[dict[str, Any]]:
    """Options as the pages name them: lower case, without those that have no values."""
    if not options:
        return []
    try:
        named = {
            name.lower(): [value["value"].strip().replace("/", " | ").lower() for value in values]
            for name, values in options.items()
            if values is not None
        }
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(
            f"{where}: field 'customization_options': expected {{name: [{{value}}]}}, found {options!r:.60}"
        ) from error
    return [{"name": name, "values": values} for name, values in named.items()]


def _features(item: dict[str, Any]) -> Any:
    features = item.get("small_description")
    return features if isinstance(features, list) else [features or ""]


def _texts(value: Any, field: str, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise InputError(f"{where}: field {field!r}: expected a list of texts, found {value!r:.60}")
    return value


def _text(item: dict[str, Any], field: str, where: str) -> str:
    value = item.get(field)
    if not isinstance(value, str):
        found = "nothing" if value is None else f"{value!r:.60}"
        raise InputError(f"{where}: field {field!r}: expected a text, found {found}")
    return value
