"""The products that can be bought, as objects, made when they are looked at."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import polars as pl

from talentrl.errors import InputError

_KEPT = 1 << 16
_BATCH = 10_000


@dataclass(frozen=True)
class Product:
    """A row of `PRODUCT_SCHEMA`."""

    asin: str
    title: str
    description: str
    features: tuple[str, ...]
    price: float
    """Dollars; what a purchase is judged by."""
    price_tag: str
    """What pages show; a range where the product has one."""
    category: str
    query: str
    product_category: str
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    title_nouns: tuple[str, ...]

    @cached_property
    def texts(self) -> tuple[str, str, str]:
        """Title, features and description in lower case, as the reward searches them."""
        return self.title.lower(), " ".join(self.features).lower(), self.description.lower()


class Catalogue:
    """A frame of `PRODUCT_SCHEMA`, by position and by ASIN. Memory beyond the frame is bounded."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame
        self._positions = {asin: position for position, asin in enumerate(frame["asin"])}
        self.product = lru_cache(_KEPT)(self._read)

    def __len__(self) -> int:
        return len(self.frame)

    def __iter__(self) -> Iterator[Product]:
        return (_product(row) for row in self.frame.iter_rows(named=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalogue, (self.frame,)

    def position(self, asin: str) -> int:
        """Where the product with that ASIN is.

        Raises:
            InputError: there is none.
        """
        if asin not in self._positions:
            raise InputError(f"products: no product {asin!r} among {len(self)}, expected that of every goal")
        return self._positions[asin]

    def _read(self, position: int) -> Product:
        return _product(self.frame.row(position, named=True))

    def digest(self) -> str:
        """SHA-256 of the rows, hexadecimal: the same for the same products, however they are stored."""
        total = hashlib.sha256()
        for batch in self.frame.iter_slices(_BATCH):
            total.update(batch.write_ndjson().encode())
        return total.hexdigest()


def _product(row: dict[str, Any]) -> Product:
    lists = {name: tuple(row[name]) for name in ("features", "attributes", "title_nouns")}
    options = {option["name"]: tuple(option["values"]) for option in row["options"]}
    return Product(**row | lists | {"options": options})
