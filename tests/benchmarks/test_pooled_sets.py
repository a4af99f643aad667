"""Question-answering sets mixed into one task set."""

import json
from pathlib import Path

import pytest

from talentrl.benchmarks.load import load_benchmark
from talentrl.benchmarks.taskset import Task
from talentrl.benchmarks.teachers import play
from talentrl.config import PooledSection, TasksSection
from talentrl.errors import InputError


def write(path: Path, *ids: str, text: str) -> str:
    paragraph = {"title": "Rush", "text": text, "supporting": True}
    items = [
        {"id": id, "split": "train", "question": "Who?", "answers": ["Rush"], "context": [paragraph]} for id in ids
    ]
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return str(path)


@pytest.fixture
def settings(tmp_path: Path) -> TasksSection:
    return TasksSection(
        benchmark="hotpotqa",
        path=write(tmp_path / "hotpot.jsonl", "h1", "h2", "h3", text="a band"),
        pooled=[PooledSection(benchmark="musique", path=write(tmp_path / "musique.jsonl", "m1", "m2", text="a hurry"))],
    )


def test_every_task_keeps_its_set_and_finds_its_own_passages(settings: TasksSection) -> None:
    pooled = load_benchmark(settings, seed=1)
    texts = dict(pooled.passages.select("passage_id", "text").iter_rows())
    assert texts == {"hotpotqa: Rush": "a band", "musique: Rush": "a hurry"}
    tasks = pooled.split("train")
    assert sorted(task.task_id for task in tasks) == ["h1", "h2", "h3", "m1", "m2"]
    for task in tasks:
        assert task.payload["passages"] == task.payload["supporting"] == [f"{task.benchmark}: Rush"]


@pytest.mark.parametrize("alone", [False, True])
def test_what_is_read_is_shuffled_by_the_seed(settings: TasksSection, alone: bool) -> None:
    read = settings.model_copy(update={"pooled": []}) if alone else settings

    def order(seed: int) -> list[str]:
        return load_benchmark(read, seed).tasks["task_id"].to_list()

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(8)}) > 1
    assert {tuple(sorted(order(seed))) for seed in range(8)} == {tuple(sorted(order(1)))}


def test_atlas_can_be_the_first(settings: TasksSection) -> None:
    mixed = settings.model_copy(update={"benchmark": "atlas", "path": None, "train": 20, "dev": 3, "test": 3})
    pooled = load_benchmark(mixed, seed=1)
    assert pooled.tasks["benchmark"].value_counts(sort=True).rows() == [("atlas", 26), ("musique", 2)]
    assert all(id.startswith(("atlas: ", "musique: ")) for id in pooled.passages["passage_id"])


def test_what_cannot_be_pooled_is_refused(settings: TasksSection, tmp_path: Path) -> None:
    world = [PooledSection(benchmark="webshop", path="somewhere")]
    with pytest.raises(InputError, match=r"tasks\.pooled: found 'webshop', expected question-answering sets"):
        load_benchmark(settings.model_copy(update={"pooled": world}), 1)
    with pytest.raises(InputError, match=r"tasks\.pooled: sets bring their own passages, found tasks\.corpus 'wiki'"):
        load_benchmark(settings.model_copy(update={"corpus": "wiki"}), 1)
    again = [PooledSection(benchmark="musique", path=write(tmp_path / "again.jsonl", "h2", text="x"))]
    with pytest.raises(InputError, match="task ids used once, found 'h2' again"):
        load_benchmark(settings.model_copy(update={"pooled": again}), 1)


def test_the_teacher_is_that_of_the_task() -> None:
    steps = [{"question": "Who sang it?", "answer": "Rush", "title": "Rush"}]
    task = Task("m1", "musique", "train", "Who sang it?", ("Rush",), {"decomposition": steps})
    assert next(play(task, "lookup", "")).startswith("<search>")
    with pytest.raises(InputError, match="'nq' has no teacher"):
        play(Task("n1", "nq", "test", "Who?", ("Rush",), {}), "lookup", "")
