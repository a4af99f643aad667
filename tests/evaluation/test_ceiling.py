"""How many questions the passages can answer."""

import json
import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.benchmarks.qa_sets import load_qa
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, TASK_SCHEMA, TaskSet
from talentrl.environments.scoring import normalise
from talentrl.evaluation.ceiling import recall_ceiling

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data"))
NQ, WIKI = DATA / "nq/test.jsonl", DATA / "corpus/wiki18_from_search_r1_runs.jsonl.xz"


def task_set(tasks, passages):
    """`tasks`: lists of answers, ids of own passages, split; `passages`: texts, numbered from 0."""
    rows = [
        (str(n), "nq", split, "q", answers, json.dumps({"passages": own, "type": None}))
        for n, (answers, own, split) in enumerate(tasks)
    ]
    return TaskSet(
        pl.DataFrame(rows, schema=TASK_SCHEMA, orient="row"),
        pl.DataFrame([(str(n), "T", text) for n, text in enumerate(passages)], schema=PASSAGE_SCHEMA, orient="row"),
    )


def test_own_and_pooled_passages_are_told_apart():
    tasks = [
        (["Paris", "City of Light"], ["0"], "test"),  # stands in its own
        (["the Rome!"], ["0"], "test"),  # in another's
        (["Oslo"], ["1"], "test"),  # nowhere
        (["paris rome"], [], "test"),  # words stand, the answer does not; has no passages
        (["ROME"], ["1", "0"], "dev"),
        (["The"], ["1"], "dev"),  # nothing is left of it
    ]
    found = recall_ceiling(task_set(tasks, ["In Paris.", "From a Rome, Rome to Romes."]))
    assert found.columns == ["split", "questions", "own", "with_own", "pooled"]
    assert found.rows() == [("test", 4, 1, 3, 2), ("dev", 2, 1, 2, 1)]


def test_whole_words_at_either_end_of_a_passage_and_side_by_side():
    tasks = [([answer], ["0"], "test") for answer in ("one", "two", "three", "tw", "ne two", "one two")]
    assert recall_ceiling(task_set(tasks, ["one two three"])).rows() == [("test", 6, 4, 6, 4)]


words = st.lists(st.sampled_from(["a", "the", "x", "y", "X.", "z-y", "é", "“x”"]), max_size=4).map(" ".join)


@given(
    st.lists(st.lists(words, min_size=1, max_size=2), min_size=1, max_size=4), st.lists(words, min_size=1, max_size=4)
)
def test_it_agrees_with_the_definition(golds, passages):
    def stands(answers, texts):
        padded = [f" {normalise(text)} " for text in texts]
        return any(normalise(a) and f" {normalise(a)} " in text for a in answers for text in padded)

    expected = ("test", len(golds), sum(stands(gold, passages[:1]) for gold in golds), len(golds))
    found = recall_ceiling(task_set([(gold, ["0"], "test") for gold in golds], passages)).row(0)
    assert found == (*expected, sum(stands(gold, passages) for gold in golds))


@pytest.mark.skipif(not NQ.is_file(), reason=f"no {NQ}: set TALENTRL_DATA")
def test_on_real_items_it_is_close_to_the_share_that_their_source_states():
    items = [json.loads(line) for line in NQ.read_text(encoding="utf-8").splitlines()]
    stated = sum(item["answer_in_passages"] for item in items)  # as substrings, so a few more than whole words
    (row,) = recall_ceiling(load_qa("nq", NQ, WIKI)).rows()
    assert row[1] == row[3] == len(items)
    assert 0.95 * stated <= row[2] <= stated < row[4]
