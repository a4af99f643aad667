"""HotpotQA files: real items load; every malformed line is refused with file, line and field."""

import gzip
import json
import lzma
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.benchmarks.hotpotqa import load_hotpotqa
from talentrl.errors import InputError

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data"))
REAL = DATA / "hotpotqa/with_context.jsonl.xz"


def paragraph(title: str, text: str, supporting: bool = False) -> dict:
    return {"title": title, "text": text, "supporting": supporting}


def item(**changes) -> dict:
    context = [paragraph("A", "a first text", True), paragraph("B", "b text")]
    return {"id": "1", "split": "dev", "question": "Who?", "answers": ["Rush"], "context": context} | changes


def write(path: Path, *items: object) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in items), encoding="utf-8")
    return path


@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}: set TALENTRL_DATA")
def test_real_items_load_with_their_supporting_paragraphs():
    tasks = load_hotpotqa(REAL)
    texts = dict(tasks.passages.select("passage_id", "text").iter_rows())
    assert len(tasks.tasks) > 200
    assert len(texts) == len(tasks.passages) > 2000
    for task in tasks.split("dev"):
        assert task.instruction and all(task.answers)
        assert len(task.payload["supporting"]) >= 1
        assert set(task.payload["supporting"]) <= set(texts)


@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}: set TALENTRL_DATA")
def test_limit_takes_the_first_items():
    few, all_items = load_hotpotqa(REAL, limit=5), load_hotpotqa(REAL)
    assert few.tasks.equals(all_items.tasks.head(5))
    assert len(few.passages) < len(all_items.passages)


@pytest.mark.parametrize(("suffix", "compress"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_plain_and_compressed_files_are_the_same(tmp_path, suffix, compress):
    path = tmp_path / f"items.jsonl{suffix}"
    path.write_bytes(compress(json.dumps(item()).encode() + b"\n\n"))
    tasks = load_hotpotqa(path)
    (task,) = tasks.split("dev")
    assert (task.task_id, task.benchmark, task.instruction, task.answers) == (
        "1",
        "hotpotqa",
        "Who?",
        ("Rush",),
    )
    assert task.payload["supporting"] == ["A"]


def test_paragraphs_are_pooled_without_repetition(tmp_path):
    again = item(id="2", context=[paragraph("A", "a first text"), paragraph("A", "a second text", True)])
    tasks = load_hotpotqa(write(tmp_path / "x.jsonl", item(), again))
    assert tasks.passages["passage_id"].to_list() == ["A", "B", "A#2"]
    assert tasks.split("dev")[1].payload["supporting"] == ["A#2"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (item(id="1"), r"x.jsonl:2: field 'id': .*'1' again"),
        (item(id=2), r"x.jsonl:2: field 'id': expected a text, found 2"),
        (item(id="2", question=" "), r"x.jsonl:2: field 'question'"),
        (item(id="2", split=None), r"x.jsonl:2: field 'split': expected a text, found nothing"),
        (item(id="2", answers="Rush"), r"x.jsonl:2: field 'answers': expected a list"),
        (item(id="2", answers=[]), r"x.jsonl:2: field 'answers'"),
        (item(id="2", answers=[1]), r"x.jsonl:2: field 'answers'"),
        (item(id="2", context=[]), r"x.jsonl:2: field 'context'"),
        (item(id="2", context=["text"]), r"x.jsonl:2: field 'context\[0\]'"),
        (item(id="2", context=[{"title": "A"}]), r"x.jsonl:2: field 'context\[0\].text'"),
        ([1], r"x.jsonl:2: expected an object, found list"),
    ],
)
def test_malformed_items_are_refused(tmp_path, second, message):
    with pytest.raises(InputError, match=message):
        load_hotpotqa(write(tmp_path / "x.jsonl", item(), second))


@given(st.text(st.characters(codec="utf-8", exclude_characters="\n\r")).filter(str.strip))
def test_no_line_raises_anything_but_input_error(tmp_path_factory, line):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError):
        load_hotpotqa(path)


def test_missing_empty_and_broken_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_hotpotqa(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="empty"):
        load_hotpotqa(write(tmp_path / "empty.jsonl"))
    for name, content in (
        ("a.xz", b"not xz"),
        ("b.gz", gzip.compress(b"{}" * 99)[:-9]),
        ("c.jsonl", b"\xff\n"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}.*not readable"):
            load_hotpotqa(tmp_path / name)
    with pytest.raises(InputError, match="limit"):
        load_hotpotqa(tmp_path / "none.jsonl", limit=0)
