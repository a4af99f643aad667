"""WebShop as a task set: products and goals as published, every draw seeded, bad files refused in one line."""

import json
import os
import random
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, TASK_SCHEMA, Task, TaskSet
from talentrl.benchmarks.webshop import ORDERS, load_webshop
from talentrl.benchmarks.webshop_goals import NO_BOUND, price_bound
from talentrl.benchmarks.webshop_products import PRODUCT_SCHEMA, read_options, read_prices
from talentrl.errors import InputError

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data"))
REAL = DATA / "webshop"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no {REAL}: set TALENTRL_DATA")


def item(asin: str = "B000000001", **changes) -> dict:
    return {
        "asin": asin,
        "name": "Cotton Shirt",
        "category": "fashion",
        "query": " Men's Shirts ",
        "product_category": "Clothing › Men",
        "pricing": "$12.5",
        "full_description": "Soft.",
        "small_description": ["Cotton "],
        "customization_options": {"Size": [{"value": " X/L "}, {"value": "S"}], "Color": [{"value": "Red"}]},
    } | changes


WANTED = {"attributes": ["slim fit"], "instruction": "Find me slim fit shirts", "instruction_attributes": ["slim fit"]}
HUMAN = {"instruction": "i want a shirt.", "instruction_attributes": ["slim fit"], "instruction_options": ["red"]}


def write(folder: Path, *items: dict, attributes: dict | None = None, human: dict | None = None, nouns=None) -> Path:
    """Published files of a small catalogue."""
    asins = [value.get("asin") for value in items]
    (folder / "items_shuffle_1000.json").write_text(json.dumps(list(items)))
    (folder / "items_ins_v2_1000.json").write_text(json.dumps(attributes or {asin: WANTED for asin in asins}))
    (folder / "items_human_ins_1000.json").write_text(json.dumps(human or {asin: [HUMAN] for asin in asins}))
    (folder / "title_nouns_1000.json").write_text(json.dumps(nouns or {asin: ["shirt"] for asin in asins}))
    return folder


def tasks(frame: pl.DataFrame) -> dict[str, Task]:
    """Tasks by instruction without the price."""
    found = TaskSet(frame, PASSAGE_SCHEMA.to_frame()).split("test")
    return {task.instruction.partition(", and price")[0]: task for task in found}


def test_a_product_is_read_as_the_published_loader_reads_it(tmp_path):
    (row,) = load_webshop(write(tmp_path, item())).products.to_dicts()
    assert row == {
        "asin": "B000000001",
        "title": "Cotton Shirt",
        "description": "Soft.",
        "features": ["Cotton "],
        "price": 12.5,
        "price_tag": "$12.5",
        "category": "fashion",
        "query": "men's shirts",
        "product_category": "Clothing › Men",
        "attributes": ["slim fit"],
        "options": [{"name": "size", "values": ["x | l", "s"]}, {"name": "color", "values": ["red"]}],
        "title_nouns": ["shirt"],
    }


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [
        (None, (100.0,), "$100.0"),
        ("", (100.0,), "$100.0"),
        ("$877.8", (877.8,), "$877.8"),
        ("$1,299.99", (1299.99,), "$1299.99"),
        ("$19.99$27.99", (19.99, 27.99), "$19.99 to $27.99"),
        ("$9.99 - $5.00", (9.99, 5.0), "$9.99 to $5.0"),
        ("$1.00$2.00$3.00", (1.0, 2.0), "$1.0 to $2.0"),
    ],
)
def test_prices(pricing, prices, tag):
    assert read_prices(pricing, "here") == (prices, tag)


@pytest.mark.parametrize("pricing", ["free", "9.99", "$", "$1.2.3"])
def test_a_price_that_is_no_amount_is_refused_and_never_guessed(pricing):
    with pytest.raises(InputError, match="here: field 'pricing': expected amounts like"):
        read_prices(pricing, "here")


def test_a_product_with_a_range_costs_one_seeded_amount_in_it(tmp_path):
    folder = write(tmp_path, *(item(f"B{n:09d}", pricing="$10.0$20.0") for n in range(5)))
    prices = load_webshop(folder).products["price"].to_list()
    assert all(10 <= price <= 20 for price in prices) and len(set(prices)) == 5
    draw = random.Random(42)
    assert prices == [draw.uniform(10, 20) for _ in range(5)]
    assert load_webshop(folder).products["price"].to_list() == prices
    assert load_webshop(folder, order="original").products["price"].to_list() != prices


def test_missing_texts_and_attributes_have_their_published_stand_ins(tmp_path):
    bare = item(full_description=None, small_description="One text", customization_options="", pricing=None)
    (row,) = (
        load_webshop(write(tmp_path, bare, attributes={"B000000001": {"instruction": "x"} | WANTED}))
        .products[["description", "features", "options", "price", "attributes"]]
        .to_dicts()
    )
    assert row == {
        "description": "",
        "features": ["One text"],
        "options": [],
        "price": 100.0,
        "attributes": ["slim fit"],
    }
    other = write(tmp_path, item(), item("B000000002"), attributes={"B000000001": WANTED}, nouns=None)
    assert load_webshop(other).products["attributes"].to_list() == [["slim fit"], ["DUMMY_ATTR"]]


def test_options_without_values_are_left_out_and_names_of_one_spelling_are_one():
    assert read_options({"Color": None, "SIZE": [{"value": "a"}], "size": [{"value": "b"}]}, "x") == [
        {"name": "size", "values": ["b"]}
    ]
    with pytest.raises(InputError, match="x: field 'customization_options'"):
        read_options({"Color": [{"image": "a"}]}, "x")


def test_ids_that_are_no_asin_and_repeats_are_left_out(tmp_path):
    items = [item("nan"), item("B0000000012"), item("B000000001"), item("B000000001", name="Again")]
    assert load_webshop(write(tmp_path, *items)).products["title"].to_list() == ["Cotton Shirt"]


@given(st.floats(0, 2000), st.integers())
def test_a_bound_is_the_larger_of_two_of_the_next_four_tens(price, seed):
    bound, text = price_bound(price, random.Random(seed))
    above = [ten for ten in range(10, 1000, 10) if ten > price][:4]
    if price >= 980:
        assert (bound, text) == (NO_BOUND, "")
    else:
        assert bound in above[1:] and bound > price
        assert text == f", and price lower than {bound:.2f} dollars"


def test_synthetic_goals_are_all_combinations_of_options_by_name(tmp_path):
    found = tasks(load_webshop(write(tmp_path, item())).tasks)
    assert set(found) == {
        "Find me slim fit shirts with color: red, and size: x | l",
        "Find me slim fit shirts with color: red, and size: s",
    }
    task = found["Find me slim fit shirts with color: red, and size: s"]
    bound = task.payload["price_upper"]
    assert task.payload == {
        "asin": "B000000001",
        "category": "fashion",
        "attributes": ["slim fit"],
        "options": {"color": "red", "size": "s"},
        "price_upper": bound,
    }
    assert bound in (30.0, 40.0, 50.0)
    assert len({task.payload["price_upper"] for task in found.values()}) == 1  # one draw a product
    assert task.instruction.endswith(f", and price lower than {bound:.2f} dollars")


def test_human_goals_keep_their_sentence_and_list_of_values(tmp_path):
    human = {"B000000001": [HUMAN, HUMAN | {"instruction": "none", "instruction_attributes": []}]}
    (task,) = tasks(load_webshop(write(tmp_path, item(), human=human), "human").tasks).values()
    assert task.instruction.startswith("i want a shirt, and price lower than ")
    assert task.payload["options"] == ["red"]
    assert task.task_id == "webshop-human-0"


def test_no_bound_no_price_in_the_instruction(tmp_path):
    (task,) = tasks(load_webshop(write(tmp_path, item(pricing="$985", customization_options=""))).tasks).values()
    assert task.instruction == "Find me slim fit shirts"
    assert task.payload["price_upper"] == NO_BOUND


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"asin": None}, "item 1: field 'asin': expected a text, found nothing"),
        ({"name": 7}, "item 1: field 'name': expected a text, found 7"),
        ({"pricing": "cheap"}, "item 1: field 'pricing'"),
        ({"small_description": [None]}, "item 1: field 'small_description'"),
        ({"full_description": ["a"]}, "item 1: field 'full_description': expected a text"),
        ({"customization_options": {"a": [1]}}, "item 1: field 'customization_options'"),
    ],
)
def test_a_broken_product_is_named(tmp_path, change, message):
    with pytest.raises(InputError, match=message) as error:
        load_webshop(write(tmp_path, item(**change)))
    assert "items_shuffle_1000.json" in str(error.value) and "\n" not in str(error.value)


def test_broken_goals_are_named(tmp_path):
    with pytest.raises(InputError, match=r"items_ins_v2.*product B000000001: 'instruction_attributes' is empty"):
        load_webshop(write(tmp_path, item(), attributes={"B000000001": WANTED | {"instruction_attributes": []}}))
    with pytest.raises(InputError, match=r"items_human_ins.*product B000000001: expected the field 'instruction_opt"):
        human = {"B000000001": [{"instruction": "x", "instruction_attributes": ["y"]}]}
        load_webshop(write(tmp_path, item(), human=human), "human")
    with pytest.raises(InputError, match="no instruction for any product"):
        load_webshop(write(tmp_path, item(), attributes={"other": {}}))


def test_missing_files_are_named_and_the_nouns_come_with_their_recipe(tmp_path):
    with pytest.raises(InputError, match="no products of the small catalogue, expected items_shuffle_1000 with"):
        load_webshop(tmp_path)
    write(tmp_path, item(), nouns={"B000000009": []})
    with pytest.raises(InputError, match=r"title_nouns_1000.json: no nouns of product B000000001"):
        load_webshop(tmp_path)
    (tmp_path / "title_nouns_1000.json").unlink()
    with pytest.raises(InputError, match=r"spaCy.*python -m talentrl.benchmarks.webshop_nouns .*items_shuffle_1000"):
        load_webshop(tmp_path)


def test_frames_survive_parquet(tmp_path):
    data = load_webshop(write(tmp_path, item(), item("B000000002", customization_options="")))
    for frame, schema in zip(data, (TASK_SCHEMA, PRODUCT_SCHEMA), strict=True):
        frame.write_parquet(tmp_path / "frame.parquet")
        back = pl.read_parquet(tmp_path / "frame.parquet")
        assert back.schema == schema and back.equals(frame)


@real
def test_the_small_catalogue_has_6910_goals_in_the_order_of_the_field():
    data = load_webshop(REAL)
    assert data.products.shape == (1000, len(PRODUCT_SCHEMA))
    assert Counter(data.tasks["split"]) == {"test": 500, "train": 6410}
    assert data.tasks["task_id"].n_unique() == 6910
    assert data.tasks.equals(load_webshop(REAL).tasks)
    # Shuffling numbers in the place of goals tells which goal of the file's order is where.
    places = list(range(6910))
    random.Random(ORDERS["verl-agent"].seed).shuffle(places)
    by_file = dict(zip(places, data.tasks["payload"], strict=True))
    asins = [json.loads(by_file[place])["asin"] for place in range(6910)]
    order = {asin: position for position, asin in enumerate(data.products["asin"])}
    assert [order[asin] for asin in asins] == sorted(order[asin] for asin in asins)


@real
def test_the_original_order_has_a_dev_split():
    data = load_webshop(REAL, order="original")
    assert Counter(data.tasks["split"]) == {"test": 500, "dev": 1000, "train": 5410}


@real
def test_the_real_products_have_the_known_counts():
    products = load_webshop(REAL).products
    assert products.filter(pl.col("options").list.len() > 0).height == 423
    assert products.filter(pl.col("price_tag").str.contains(" to ")).height == 93
    assert Counter(products["category"]) == {
        "beauty": 238,
        "electronics": 229,
        "garden": 216,
        "fashion": 200,
        "grocery": 117,
    }


@real
def test_a_synthetic_goal_asks_for_values_that_its_product_has():
    data = load_webshop(REAL)
    options = {
        row["asin"]: {option["name"]: option["values"] for option in row["options"]} for row in data.products.to_dicts()
    }
    for payload in map(json.loads, data.tasks["payload"]):
        offered = options[payload["asin"]]
        assert payload["options"].keys() == offered.keys()
        assert all(value in offered[name] for name, value in payload["options"].items())


@real
def test_thirteen_human_goals():
    data = load_webshop(REAL, "human")
    assert len(data.tasks) == 13 and set(data.tasks["split"]) == {"test"}
