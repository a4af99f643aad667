"""Memories of single tasks: read whole, and kept away from the evaluation of those tasks."""

import json
import lzma
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.bank.memories import Memory, find_leaks, read_memories, refuse_leaks, without_leaks
from talentrl.errors import InputError

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data"))
REAL = DATA / "skillbank/skillrl_memories.jsonl.xz"
EVALUATED = ("2wikimultihopqa", "bamboogle", "hotpotqa", "musique", "nq", "popqa", "triviaqa")


def memory(name: str, goal: str, source: str = "") -> Memory:
    return Memory(name, "search", source, goal, {})


def line(**changes) -> str:
    found = {"memory_id": "m1", "content": {"task_meta": {"original_goal": "Who?"}}, "env": "search"}
    return json.dumps(found | changes)


def test_a_goal_is_recognised_whatever_its_case_space_and_punctuation():
    leaks = find_leaks(
        [memory("a", "who’s the first  KING of Spain"), memory("b", "Who is the second king of Spain?")],
        {"nq": ["Who's the first king of Spain?"], "popqa": ["?"]},
    )
    assert leaks.matched == {"nq": ("a",)}
    assert leaks.suspected == {}
    assert leaks.summary() == "1 of 2 memories leak (matched + suspected: nq 1 + 0)"


def test_a_memory_of_an_evaluated_benchmark_is_suspected_though_its_question_is_not_at_hand():
    memories = [memory("a", "Who?", "nq"), memory("b", "When?", "popqa")]
    kept, leaks = without_leaks(memories, {"nq": ["Where?"]})
    assert kept == [memories[1]]
    assert (leaks.matched, leaks.suspected) == ({}, {"nq": ("a",)})


def test_leaks_are_refused_with_their_counts():
    memories = [memory("a", "Who?", "nq"), memory("b", "When?", "nq"), memory("c", "Why?")]
    with pytest.raises(InputError, match=r"notes: 2 of 3 memories leak \(matched \+ suspected: nq 1 \+ 1\), expected"):
        refuse_leaks(memories, {"nq": ["who"]}, "notes")
    refuse_leaks(memories[2:], {"nq": ["who"]}, "notes")


def test_a_goal_without_letters_matches_nothing():
    assert find_leaks([memory("a", "?!")], {"nq": ["..."]}).ids == frozenset()


@given(st.lists(st.text(max_size=6), max_size=6), st.lists(st.text(max_size=6), max_size=6))
def test_kept_and_left_out_are_all(goals, questions):
    memories = [memory(str(number), goal) for number, goal in enumerate(goals)]
    kept, leaks = without_leaks(memories, {"nq": questions})
    assert len(kept) + len(leaks.ids) == len(memories) == leaks.memories
    refuse_leaks(kept, {"nq": questions}, "kept")


@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}: set TALENTRL_DATA")
def test_no_real_memory_of_search_is_left_for_an_evaluation():
    memories = read_memories(REAL)
    questions = {benchmark: list(evaluation_questions(benchmark)) for benchmark in EVALUATED}
    kept, leaks = without_leaks(memories, questions)
    assert len(memories) == 619
    assert {each.environment for each in kept} == {"alfworld", "webshop"}
    assert len(leaks.ids) == 196
    counts = {benchmark: len(ids) for benchmark, ids in leaks.matched.items()}
    whole = {"2wikimultihopqa": 19, "bamboogle": 18, "hotpotqa": 43, "musique": 21, "nq": 18}
    assert {benchmark: counts[benchmark] for benchmark in whole} == whole
    # Of these two, the data hold a part of the questions: the other memories are suspected by their source.
    assert 0 < counts["popqa"] <= 16 and counts["popqa"] + len(leaks.suspected["popqa"]) == 16
    assert 0 < counts["triviaqa"] <= 61 and counts["triviaqa"] + len(leaks.suspected["triviaqa"]) == 61
    with pytest.raises(InputError, match="196 of 619 memories leak"):
        refuse_leaks(memories, questions, str(REAL))


@pytest.mark.skipif(not REAL.is_file(), reason=f"no {REAL}: set TALENTRL_DATA")
def test_one_evaluated_benchmark_takes_its_own_memories_alone():
    kept, leaks = without_leaks(read_memories(REAL), {"bamboogle": evaluation_questions("bamboogle")})
    assert (len(kept), len(leaks.matched["bamboogle"]), leaks.suspected) == (619 - 18, 18, {})


def evaluation_questions(benchmark: str) -> Iterator[str]:
    """Questions of all files of a benchmark that hold test or dev items."""
    for path in sorted((DATA / benchmark).glob("*.jsonl*")):
        with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as lines:
            for item in map(json.loads, lines):
                if "question" in item and item.get("split") != "train":
                    yield item["question"]


def test_both_plain_and_xz_files_are_read(tmp_path):
    text = f"{line()}\n\n{line(memory_id='m2', tags={'data_source': 'nq'})}\n"
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(text.encode()))
    found = read_memories(tmp_path / "a.jsonl")
    assert [(each.id, each.source, each.goal, each.environment) for each in found] == [
        ("m1", "", "Who?", "search"),
        ("m2", "nq", "Who?", "search"),
    ]
    assert read_memories(tmp_path / "a.jsonl.xz") == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ":1: not JSON"),
        ("[]", ":1: field 'memory_id': found None"),
        (line(memory_id=3), ":1: field 'memory_id': found 3"),
        (f"{line()}\n{line(content={'task_meta': {'original_goal': ' '}})}", ":2: field 'content.task_meta"),
        (line(content="x"), "original_goal': found None"),
    ],
)
def test_a_broken_line_is_refused(tmp_path, text, message):
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_memories(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", ["none.jsonl", "cut.jsonl.xz", "latin.jsonl"])
def test_an_unreadable_file_is_refused(tmp_path, name):
    (tmp_path / "cut.jsonl.xz").write_bytes(lzma.compress(b"x" * 1000)[:-20])
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=f"{name}: cannot be read"):
        read_memories(tmp_path / name)
