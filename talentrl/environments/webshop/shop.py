"""A shop: the catalogue, its search, and what identifies them. Many sessions share one."""

import json
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from talentrl.benchmarks.taskset import read_parquet
from talentrl.benchmarks.webshop_products import PRODUCT_SCHEMA
from talentrl.environments.webshop.catalogue import Catalogue
from talentrl.environments.webshop.search import ProductSearch
from talentrl.errors import InputError
from talentrl.files import atomic_path

ENGINE = "webshop/1"


class Shop:
    """What all sessions read and none changes.

    A shop that lies in a folder is pickled as the name of the folder, so a session takes little room and a process
    opens each folder once.
    """

    def __init__(self, catalogue: Catalogue, search: ProductSearch, digest: str, folder: Path | None = None) -> None:
        self.catalogue = catalogue
        self.search = search
        self.digest = digest
        self._folder = folder

    @classmethod
    def build(cls, products: pl.DataFrame) -> "Shop":
        """The shop of a frame of `PRODUCT_SCHEMA`, in memory."""
        catalogue = Catalogue(products)
        return cls(catalogue, ProductSearch.build(catalogue), catalogue.digest())

    def write(self, folder: Path) -> None:
        """Write `products.parquet`, the search index `search/` and `shop.json` into `folder`, whole or not at all."""
        with atomic_path(folder) as temporary:
            temporary.mkdir()
            self.catalogue.frame.write_parquet(temporary / "products.parquet")
            self.search.save(temporary / "search")
            manifest = {"engine": ENGINE, "products": len(self.catalogue), "digest": self.digest}
            (temporary / "shop.json").write_text(json.dumps(manifest), encoding="utf-8")

    @classmethod
    def open(cls, folder: Path) -> "Shop":
        """Open a folder that `write` made; each is opened once in a process, unless it was written anew.

        Raises:
            InputError: it is not such a folder, or another version wrote it.
        """
        path = folder / "shop.json"
        try:
            return _open(folder.resolve(), path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path}: no such file, expected a shop folder") from None

    @cached_property
    def version(self) -> str:
        """Engine and digest of the products, for an episode's record."""
        return f"{ENGINE} {self.digest[:16]}"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._folder is not None:
            return Shop.open, (self._folder,)
        return Shop, (self.catalogue, self.search, self.digest)


@lru_cache(8)
def _open(folder: Path, manifest: str) -> Shop:
    path = folder / "shop.json"
    try:
        record = json.loads(manifest)
        engine, count, digest = record["engine"], record["products"], record["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the record of a shop ({error})") from error
    if engine != ENGINE:
        raise InputError(f"{path}: field 'engine': found {engine!r}, expected {ENGINE!r}: make the folder again")
    products = read_parquet(folder / "products.parquet", PRODUCT_SCHEMA)
    if len(products) != count:
        raise InputError(f"{folder / 'products.parquet'}: found {len(products)} products, expected {count}")
    try:
        search = ProductSearch.load(folder / "search")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder / 'search'}: not a readable search index ({error})") from error
    return Shop(Catalogue(products), search, digest, folder)
