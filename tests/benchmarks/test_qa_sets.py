"""Question-answering files: real items load, in two settings; malformed lines are refused by file and field."""

import gzip
import json
import lzma
import os
import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.benchmarks.load import load_benchmark
from talentrl.benchmarks.qa_cards import CARDS
from talentrl.benchmarks.qa_sets import load_qa
from talentrl.config import TasksSection
from talentrl.errors import InputError

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data"))
WIKI, MIXED = DATA / "corpus/wiki18_from_search_r1_runs.jsonl.xz", DATA / "corpus/hipporag2_passages_psirag.jsonl.xz"
HIPPORAG = DATA / "2wikimultihopqa/hipporag_corpus_6119.jsonl.xz"
REAL = DATA / "hotpotqa/with_context.jsonl.xz"
REAL_FILES = [
    ("hotpotqa", REAL, None),
    ("2wikimultihopqa", DATA / "2wikimultihopqa/with_context.jsonl.xz", None),
    ("musique", DATA / "musique/with_context.jsonl.xz", None),
    ("popqa", DATA / "popqa/with_context.jsonl.xz", None),
    ("nq", DATA / "nq/test.jsonl", WIKI),
    ("triviaqa", DATA / "triviaqa/test.jsonl.xz", WIKI),
    ("popqa", DATA / "popqa/test.jsonl.xz", WIKI),
    ("bamboogle", DATA / "bamboogle/test.jsonl", WIKI),
    ("nq", DATA / "nq/nq_open_dev.jsonl.xz", WIKI),
    ("popqa", DATA / "popqa/longtail_1399.jsonl", MIXED),
    ("hotpotqa", DATA / "hotpotqa/dev_qa.jsonl.xz", MIXED),
    ("musique", DATA / "musique/dev_qa.jsonl.xz", MIXED),
    ("2wikimultihopqa", DATA / "2wikimultihopqa/dev_qa.jsonl.xz", HIPPORAG),
    ("2wikimultihopqa", DATA / "2wikimultihopqa/hipporag_sample_linked.jsonl.xz", HIPPORAG),
]
load_hotpotqa = partial(load_qa, "hotpotqa")


def paragraph(title: str, text: str, supporting: bool = False) -> dict:
    return {"title": title, "text": text, "supporting": supporting}


def item(**changes) -> dict:
    context = [paragraph("A", "a first text", True), paragraph("B", "b text")]
    return {"id": "1", "split": "dev", "question": "Who?", "answers": ["Rush"], "context": context} | changes


def write(path: Path, *items: object) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in items), encoding="utf-8")
    return path


def lines_of(path: Path) -> int:
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        return sum(bool(line.strip()) for line in file)


@pytest.mark.parametrize(("name", "path", "corpus"), REAL_FILES, ids=lambda value: getattr(value, "stem", None))
def test_every_real_item_loads(name, path, corpus):
    if not path.is_file():
        pytest.skip(f"no {path}: set TALENTRL_DATA")
    tasks = load_qa(name, path, corpus)
    assert len(tasks.tasks) == tasks.tasks["task_id"].n_unique() == lines_of(path)
    assert set(tasks.tasks["benchmark"]) == {name}
    assert tasks.passages["passage_id"].n_unique() == len(tasks.passages)
    assert set(tasks.tasks["split"]) <= {"train", "dev", "test"}
    known = set(tasks.passages["passage_id"])
    linked = 0
    for split in tasks.tasks["split"].unique():
        for task in tasks.split(split):
            assert task.instruction and all(task.answers)
            assert set(task.payload["supporting"]) <= set(task.payload["passages"]) <= known
            linked += bool(task.payload["supporting"])
    if "context" in path.stem:
        assert linked == len(tasks.tasks)
    elif path.stem.startswith("test"):
        assert linked > len(tasks.tasks) / 2


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
    assert task.payload["passages"] == ["A", "B"]


def test_paragraphs_are_pooled_without_repetition(tmp_path):
    again = item(id="2", context=[paragraph("A", "a first text"), paragraph("A", "a second text", True)])
    tasks = load_hotpotqa(write(tmp_path / "x.jsonl", item(), again))
    assert tasks.passages["passage_id"].to_list() == ["A", "B", "A#2"]
    assert tasks.split("dev")[1].payload["supporting"] == ["A#2"]
    assert tasks.split("dev")[1].payload["passages"] == ["A", "A#2"]


def test_a_corpus_takes_the_place_of_paragraphs_and_is_linked_by_passage_ids(tmp_path):
    corpus = write(tmp_path / "corpus.jsonl", *({"id": n, "title": f"T{n}", "text": f"text {n}"} for n in range(3)))
    items = write(tmp_path / "x.jsonl", item(passage_ids=[2, 0]), item(id="2"))
    tasks = load_qa("nq", items, corpus)
    assert tasks.passages.rows() == [("0", "T0", "text 0"), ("1", "T1", "text 1"), ("2", "T2", "text 2")]
    first, second = tasks.split("dev")
    assert first.payload["supporting"] == first.payload["passages"] == ["2", "0"]
    assert second.payload["supporting"] == []
    with pytest.raises(InputError, match=r"x.jsonl:1: field 'passage_ids': .*no '7'"):
        load_qa("nq", write(items, item(passage_ids=[7])), corpus)


def test_items_without_paragraphs_need_a_corpus(tmp_path):
    with pytest.raises(InputError, match=r"x.jsonl: the items have no paragraphs of their own, expected a corpus"):
        load_qa("nq", write(tmp_path / "x.jsonl", item(context=None)))


@pytest.mark.parametrize(
    ("set_name", "file_name", "own", "split"),
    [
        ("hotpotqa", "x.jsonl", "validation", "dev"),
        ("hotpotqa", "x.jsonl", "train?", "train"),
        ("hotpotqa", "train.jsonl", "dev", "dev"),
        ("hotpotqa", "train.jsonl", None, "train"),
        ("hotpotqa", "hotpot_train_v1.1.jsonl", None, "train"),
        ("hotpotqa", "hotpot_dev_distractor_v1.jsonl", None, "dev"),
        ("musique", "restrained.jsonl", None, "dev"),
        # What the field calls the test split of these is the published dev file ...
        ("nq", "NQ-open.dev.jsonl", None, "test"),
        ("triviaqa", "unfiltered-web-dev.jsonl", None, "test"),
        # ... and the hub copy's dev split is another one.
        ("nq", "dev.jsonl", None, "dev"),
    ],
)
def test_the_split_is_the_items_own_else_the_files_else_the_cards(tmp_path, set_name, file_name, own, split):
    fields = item(split=own) if own else {k: v for k, v in item().items() if k != "split"}
    tasks = load_qa(set_name, write(tmp_path / file_name, fields))
    assert tasks.tasks["split"].to_list() == [split]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (item(id="1"), r"x.jsonl:2: field 'id': .*'1' again"),
        (item(id=1), r"x.jsonl:2: field 'id': .*'1' again"),
        (item(id=2.5), r"x.jsonl:2: field 'id': expected a text, found 2.5"),
        (item(id=True), r"x.jsonl:2: field 'id': expected a text, found True"),
        (item(id="2", question=" "), r"x.jsonl:2: field 'question'"),
        (item(id="2", split=None), r"x.jsonl:2: field 'split': expected a text, found nothing"),
        (item(id="2", answers="Rush"), r"x.jsonl:2: field 'answers': expected a list"),
        (item(id="2", answers=[]), r"x.jsonl:2: field 'answers'"),
        (item(id="2", answers=[1]), r"x.jsonl:2: field 'answers'"),
        (item(id="2", answers=["Rush", " "]), r"x.jsonl:2: field 'answers'"),
        (item(id="2", answers=None), r"x.jsonl:2: field 'answers': expected a list of texts, found nothing"),
        (item(id="2", context=[]), r"x.jsonl:2: field 'context'"),
        (item(id="2", context="text"), r"x.jsonl:2: field 'context': expected a list of paragraphs, found 'text'"),
        (item(id="2", context=["text"]), r"x.jsonl:2: field 'context\[0\]'"),
        (item(id="2", context=[{"title": "A"}]), r"x.jsonl:2: field 'context\[0\].text'"),
        (item(id="2", supporting_facts=["A"]), r"x.jsonl:2: field 'supporting_facts': expected a list of pairs"),
        (item(id="2", evidences=[["A", "b"]]), r"x.jsonl:2: field 'evidences': expected a list of \[subject"),
        (
            item(id="2", decomposition=[{"question": "A >> b", "answer": "c", "support": 2}]),
            r"x.jsonl:2: field 'decomposition\[0\].support': expected the place of one of 2 paragraphs, found 2",
        ),
        (item(id="2", question="\ud800?"), r"x.jsonl:2: not JSON \(.*surrogates not allowed"),
        ([1], r"x.jsonl:2: expected an object, found list"),
    ],
)
def test_malformed_items_are_refused(tmp_path, second, message):
    with pytest.raises(InputError, match=message):
        load_hotpotqa(write(tmp_path / "x.jsonl", item(), second))


def test_control_and_paired_characters_are_kept_as_they_are(tmp_path):
    text = "a\x00\u202eb\U0001f600"
    path = write(tmp_path / "x.jsonl", item(question=text, answers=[text], id=text))
    (task,) = load_hotpotqa(path).split("dev")
    assert (task.task_id, task.instruction, task.answers) == (text, text, (text,))


@pytest.mark.parametrize("name", CARDS)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\n\r")).filter(str.strip))
def test_no_line_raises_anything_but_input_error(tmp_path_factory, name, line):
    path = tmp_path_factory.getbasetemp() / f"any_{name}.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError):
        load_qa(name, path)


NAMES = """id _id question Question answer Answer answers golden_answers possible_answers split context paragraphs Data
supporting_facts evidences decomposition question_decomposition passage_ids metadata QuestionId Aliases"""
fields = st.sampled_from(re.findall(r"\w+", NAMES))
values = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["a", "", "[]", '["x"]']),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(fields, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", CARDS)
@given(st.dictionaries(fields, values, max_size=6))
def test_an_object_with_any_fields_loads_or_raises_input_error(tmp_path_factory, name, value):
    path = write(tmp_path_factory.getbasetemp() / f"object_{name}.jsonl", value)
    try:
        tasks = load_qa(name, path)
    except InputError as error:
        assert path.name in str(error)
        assert "\n" not in str(error)
    else:
        assert all(task.answers for split in set(tasks.tasks["split"]) for task in tasks.split(split))


def test_missing_empty_and_broken_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_hotpotqa(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="empty"):
        load_hotpotqa(write(tmp_path / "empty.jsonl"))
    for name, content in (
        ("a.xz", b"not xz"),
        ("b.gz", gzip.compress(b"{}" * 99)[:-9]),
        ("c.jsonl", b"\xff\n"),
        ("d.tsv.gz", b"not gz"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name}.*not readable"):
            load_hotpotqa(tmp_path / name)
    with pytest.raises(InputError, match="limit"):
        load_hotpotqa(tmp_path / "none.jsonl", limit=0)
    with pytest.raises(InputError, match=r"found 'squad', expected one of .*'2wikimultihopqa'"):
        load_qa("squad", tmp_path / "none.jsonl")


def test_the_door_to_all_benchmarks_leads_here(tmp_path):
    path = write(tmp_path / "x.jsonl", item())
    tasks = load_benchmark(TasksSection(benchmark="hotpotqa", path=str(path)), seed=0)
    assert tasks.tasks.equals(load_hotpotqa(path).tasks)
