"""Cards say what a result's record must say; the hub is asked only where there is one."""

import json

import pytest

from talentrl.benchmarks.qa_cards import CARDS, HUB, card
from talentrl.benchmarks.qa_hub import load_qa_from_hub
from talentrl.benchmarks.qa_sets import load_qa
from talentrl.errors import InputError


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "0", "title": "A", "text": "a"}\n')
    return path


def test_there_is_a_card_for_each_of_the_seven_sets():
    assert set(CARDS) == {"nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"}
    assert all(name == found.name and found.split in found.hub_splits for name, found in CARDS.items())
    assert [name for name, found in CARDS.items() if not found.dev_as_test] == ["popqa", "bamboogle"]


def test_an_unknown_set_is_refused():
    with pytest.raises(InputError, match=r"found 'squad', expected one of \['2wikimultihopqa'"):
        card("squad")


def test_a_record_tells_what_a_copy_holds(tmp_path, corpus):
    path = tmp_path / "x.jsonl"
    items = [{"id": str(n), "question": "q", "answers": ["a"], "split": "dev" if n else "train"} for n in range(3)]
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    record = card("musique").record(load_qa("musique", path, corpus))
    assert record["counts"] == {"dev": 2, "train": 1}
    assert (record["passages"], record["published"], record["dev_as_test"]) == (1, 2417, True)
    assert record["licence"] == "CC BY 4.0"
    assert json.loads(json.dumps(record))["hub_splits"] == ["train", "dev"]


def test_without_a_hub_the_message_says_what_to_do(corpus):
    # The tests run with HF_HUB_OFFLINE=1.
    with pytest.raises(InputError, match=rf"{HUB}/nq/test: not to be had .*HF_HUB_OFFLINE=0.*or give a file"):
        load_qa_from_hub("nq", "test", corpus)


def test_an_unknown_split_is_refused_before_anything_is_asked(corpus, monkeypatch):
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: pytest.fail("asked"))
    with pytest.raises(InputError, match=r"popqa: found split 'dev', expected one of \['test'\]"):
        load_qa_from_hub("popqa", "dev", corpus)


def test_rows_of_the_hub_are_items(corpus, monkeypatch):
    rows = [{"id": f"test_{n}", "question": f"q{n}", "golden_answers": ["a", "b"]} for n in range(3)]
    asked = []

    def load_dataset(*names, split):
        asked.append((*names, split))
        return rows

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    tasks = load_qa_from_hub("bamboogle", "test", corpus, limit=2)
    assert asked == [(HUB, "bamboogle", "test")]
    assert [(task.task_id, task.answers) for task in tasks.split("test")] == [
        ("test_0", ("a", "b")),
        ("test_1", ("a", "b")),
    ]
    rows[1]["golden_answers"] = []
    with pytest.raises(InputError, match=rf"{HUB}/bamboogle/test\[1\]: field 'golden_answers'"):
        load_qa_from_hub("bamboogle", "test", corpus)
