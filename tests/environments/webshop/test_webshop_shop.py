"""A shop in a folder: the same shop again, or one clear line."""

import json
import pickle

import polars as pl
import pytest
from webshop_samples import frame, many, row

from talentrl.environments.webshop import Shop
from talentrl.errors import InputError


@pytest.fixture
def folder(tmp_path):
    many(5).write(tmp_path / "shop")
    return tmp_path / "shop"


def test_a_shop_comes_back_from_its_folder(folder):
    shop, opened = many(5), Shop.open(folder)
    assert opened.version == shop.version
    assert opened.search("shirt") == shop.search("shirt")
    assert list(opened.catalogue) == list(shop.catalogue)
    assert opened.catalogue.product(3) == shop.catalogue.product(3)


def test_a_folder_is_opened_once_until_it_is_written_anew(folder):
    assert Shop.open(folder) is Shop.open(folder)
    many(6).write(folder)
    assert len(Shop.open(folder).catalogue) == 6


def test_pickling_names_the_folder_and_carries_a_shop_in_memory(folder):
    opened = Shop.open(folder)
    assert pickle.loads(pickle.dumps(opened)) is opened
    copy = pickle.loads(pickle.dumps(many(5)))
    assert (copy.version, copy.search("shirt")) == (opened.version, opened.search("shirt"))


@pytest.mark.parametrize("change", [{"price": 1.0}, {"title": "Other"}, {"attributes": []}, {"title_nouns": ["x"]}])
def test_the_digest_tells_products_apart(change):
    assert Shop.build(frame(row())).digest != Shop.build(frame(row(**change))).digest


def test_the_digest_does_not_depend_on_how_rows_are_stored():
    whole = many(6).catalogue.frame
    parts = pl.concat([whole[:2], whole[2:]], rechunk=False)
    assert Shop.build(parts).digest == Shop.build(whole).digest


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "shop.json").unlink(), "shop.json: no such file"),
        (lambda f: (f / "shop.json").write_text("{"), "not the record of a shop"),
        (lambda f: (f / "shop.json").write_text("[]"), "not the record of a shop"),
        (lambda f: (f / "products.parquet").unlink(), "products.parquet: no such file"),
        (lambda f: (f / "products.parquet").write_bytes(b"PAR1"), "not a readable Parquet"),
        (lambda f: frame(row()).write_parquet(f / "products.parquet"), "found 1 products, expected 5"),
        (lambda f: (f / "search" / "vocab.index.json").unlink(), "search: not a readable search index"),
        (lambda f: (f / "search" / "data.csc.index.npy").write_bytes(b"x"), "search: not a readable search index"),
    ],
)
def test_a_damaged_folder_is_one_clear_line(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=message) as error:
        Shop.open(folder)
    assert "\n" not in str(error.value)


def test_a_folder_of_another_engine_is_refused(folder):
    record = json.loads((folder / "shop.json").read_text()) | {"engine": "webshop/0"}
    (folder / "shop.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"field 'engine': found 'webshop/0', expected 'webshop/1'"):
        Shop.open(folder)
