"""WebShop's files: JSON read piece by piece, found by name, refused when cut off."""

import gzip
import json
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.benchmarks import webshop_files
from talentrl.benchmarks.webshop_files import find_file, read_mapping, read_objects
from talentrl.errors import InputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=4), children, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=3), min_size=1, max_size=6)


@given(OBJECTS, st.sampled_from(["array", "indented", "lines"]), st.sampled_from([1, 2, 7, 1 << 20]))
def test_arrays_and_lines_are_read_whatever_the_chunks(tmp_path_factory, objects, form, chunk):
    path = tmp_path_factory.mktemp("files") / "items.json"
    lines = "\n".join(json.dumps(value, ensure_ascii=False) for value in objects) + "\n"
    text = lines if form == "lines" else json.dumps(objects, indent=2 if form == "indented" else None)
    path.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webshop_files, "_CHUNK", chunk)
        assert list(read_objects(path)) == objects


@given(OBJECTS, st.data())
def test_an_array_cut_off_anywhere_is_refused(tmp_path_factory, objects, data):
    text = json.dumps(objects)
    path = tmp_path_factory.mktemp("files") / "items.json"
    path.write_text(text[: data.draw(st.integers(0, len(text) - 1))], encoding="utf-8")
    with pytest.raises(InputError, match=r"items.json: "):
        list(read_objects(path))


@pytest.mark.parametrize(("ending", "compress"), [("xz", lzma.compress), ("gz", gzip.compress)])
def test_compressed_files_are_read_and_refused_when_cut_off(tmp_path, ending, compress):
    path = tmp_path / f"items.jsonl.{ending}"
    data = compress(b"".join(b'{"number": %d}\n' % number for number in range(1000)))
    path.write_bytes(data)
    assert [value["number"] for value in read_objects(path)] == list(range(1000))
    path.write_bytes(data[:-20])
    with pytest.raises(InputError, match="not readable, or cut off"):
        list(read_objects(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("[]", "the file is empty"),
        ("[1]", "item 1: expected an object, found int"),
        ('{"a": 1}\n"b"', "item 2: expected an object, found str"),
        ('{"a": 1}\nno', "item 2: not JSON"),
        ('{"a": 1}\n{"a":', "item 2: not JSON, or cut off"),
    ],
)
def test_what_is_not_objects_is_refused(tmp_path, text, message):
    (tmp_path / "items.json").write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_objects(tmp_path / "items.json"))


@pytest.mark.parametrize(("text", "message"), [("[]", "expected an object, found list"), ('{"a"', "cut off")])
def test_a_mapping_is_one_object(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_mapping(tmp_path / "a.json")
    with pytest.raises(InputError, match="no such file"):
        read_mapping(tmp_path / "b.json")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b'{"a": "\xff"}')
    for read in (read_mapping, lambda path: list(read_objects(path))):
        with pytest.raises(InputError, match="not readable"):
            read(tmp_path / "a.json")


def test_files_are_found_by_catalogue(tmp_path: Path):
    for name in ("items_shuffle.json", "items_shuffle_1000.jsonl.xz"):
        (tmp_path / name).touch()
    assert find_file(tmp_path, "products", "small").name == "items_shuffle_1000.jsonl.xz"
    assert find_file(tmp_path, "products", "full").name == "items_shuffle.json"
    with pytest.raises(InputError, match="no human instructions of the small catalogue, expected items_human_ins_1000"):
        find_file(tmp_path, "human instructions", "small")
