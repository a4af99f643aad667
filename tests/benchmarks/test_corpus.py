"""Passage collections: the Wikipedia-2018 form and title/text; bad passages are refused."""

import json
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.benchmarks import corpus
from talentrl.benchmarks.corpus import read_corpus
from talentrl.errors import InputError


def write(path, *passages):
    path.write_text("".join(json.dumps(passage) + "\n" for passage in passages), encoding="utf-8")
    return path


def test_both_forms_are_read(tmp_path):
    rows = read_corpus(
        write(
            tmp_path / "x.jsonl",
            {"id": "0", "contents": '"Aaron"\nAaron is a prophet.\nHe speaks.'},
            {"id": 1, "title": "Moses", "text": "Moses is a prophet.", "set": "nq"},
            {"id": 2, "contents": "Bare title\ntext"},
            {"id": 3, "contents": '""Weird Al" Yankovic"\nA singer.'},
        )
    ).rows()
    assert rows == [
        ("0", "Aaron", "Aaron is a prophet.\nHe speaks."),
        ("1", "Moses", "Moses is a prophet."),
        ("2", "Bare title", "text"),
        ("3", '"Weird Al" Yankovic', "A singer."),
    ]


def test_without_ids_passages_are_named_by_title_and_equal_ones_are_one(tmp_path):
    passages = [{"title": "A", "text": text} for text in ("one", "two", "one")]
    path = tmp_path / "x.jsonl.xz"
    path.write_bytes(lzma.compress("\n".join(map(json.dumps, passages)).encode()))
    assert read_corpus(path).rows() == [("A", "A", "one"), ("A#2", "A", "two")]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"id": "0", "title": "B", "text": "b"}, r"x.jsonl: field 'id': expected ids used once, found '0' again"),
        ({"title": "B", "text": "b"}, r"x.jsonl:2: field 'id': expected a text, found nothing"),
        ({"id": "1", "title": "B", "text": " "}, r"x.jsonl:2: field 'text'"),
        ({"id": "1", "text": "b"}, r"x.jsonl:2: field 'title'"),
        ({"id": "1", "contents": "one line"}, r"x.jsonl:2: field 'contents': expected a title, a line break and"),
        ({"id": "1", "contents": '""\ntext'}, r"x.jsonl:2: field 'contents'"),
        ({"id": "1", "contents": '"A"\n '}, r"x.jsonl:2: field 'contents'"),
    ],
)
def test_bad_passages_are_refused(tmp_path, second, message):
    with pytest.raises(InputError, match=message):
        read_corpus(write(tmp_path / "x.jsonl", {"id": "0", "title": "A", "text": "a"}, second))


def test_an_empty_collection_is_refused(tmp_path):
    with pytest.raises(InputError, match="empty"):
        read_corpus(write(tmp_path / "x.jsonl"))


def test_blocks_join_without_a_seam(tmp_path, monkeypatch):
    path = write(tmp_path / "x.jsonl", *({"id": n, "title": f"T{n}", "text": "x"} for n in range(7)))
    whole = read_corpus(path)
    monkeypatch.setattr(corpus, "_BLOCK", 3)
    assert read_corpus(path).equals(whole)
    assert whole["passage_id"].to_list() == [str(n) for n in range(7)]


titles = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).map(str.strip).filter(bool)


@given(titles, st.text(st.characters(codec="utf-8")).filter(str.strip))
def test_what_is_written_in_the_wikipedia_form_is_read_back(tmp_path_factory, title, text):
    path = write(tmp_path_factory.getbasetemp() / "form.jsonl", {"id": "0", "contents": f'"{title}"\n{text}'})
    assert read_corpus(path).rows() == [("0", title, text)]
