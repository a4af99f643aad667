"""One door to all benchmarks."""

from dataclasses import replace
from pathlib import Path

import polars as pl

from talentrl.benchmarks.alfworld import load_alfworld
from talentrl.benchmarks.atlas import build_atlas
from talentrl.benchmarks.qa_hub import load_qa_from_hub
from talentrl.benchmarks.qa_sets import load_qa
from talentrl.benchmarks.taskset import TaskSet, pool
from talentrl.benchmarks.webshop import load_webshop
from talentrl.config import TasksSection
from talentrl.errors import InputError


def load_benchmark(settings: TasksSection, seed: int) -> TaskSet:
    """The task set that `settings` names; `seed` makes `atlas` and shuffles what is read.

    Files are often sorted, by kind of task say, so that their first tasks would stand for few kinds.

    Raises:
        InputError: a benchmark that is read has no `path`, or its files are missing or broken; or sets that cannot be
            pooled are to be.
    """
    if settings.pooled:
        tasks = pool([_load(one, seed) for one in _pooled(settings)])
    elif settings.benchmark == "atlas":
        return _load(settings, seed)
    else:
        tasks = _load(settings, seed)
    return replace(tasks, tasks=tasks.tasks.sample(fraction=1.0, shuffle=True, seed=seed))


def _pooled(settings: TasksSection) -> list[TasksSection]:
    """The settings of each set in the pool."""
    if settings.corpus is not None:
        raise InputError(f"tasks.pooled: sets bring their own passages, found tasks.corpus {settings.corpus!r}")
    members = [settings, *(settings.model_copy(update=dict(further)) for further in settings.pooled)]
    for member in members:
        if member.benchmark in ("alfworld", "webshop"):
            raise InputError(f"tasks.pooled: found {member.benchmark!r}, expected question-answering sets only")
    return members


def _load(settings: TasksSection, seed: int) -> TaskSet:
    if settings.benchmark == "atlas":
        return build_atlas(seed, settings.train, settings.dev, settings.test)
    if settings.path is None:
        raise InputError(f"tasks.path: found null, expected the file or folder of benchmark {settings.benchmark!r}")
    path = Path(settings.path)
    if settings.benchmark == "alfworld":
        return TaskSet(_first(load_alfworld(path, partial=settings.alfworld.partial), settings.limit))
    if settings.benchmark == "webshop":
        options = settings.webshop
        tasks, products = load_webshop(path, options.goals, options.order, options.catalogue)
        return TaskSet(_first(tasks, settings.limit), products=products)
    corpus = Path(settings.corpus) if settings.corpus else None
    hub, _, split = settings.path.partition(":")
    if hub == "hub":
        if corpus is None:
            raise InputError("tasks.corpus: found null, expected a file: the hub's copies have no paragraphs")
        return load_qa_from_hub(settings.benchmark, split, corpus, settings.limit)
    return load_qa(settings.benchmark, path, corpus, settings.limit)


def _first(tasks: pl.DataFrame, limit: int | None) -> pl.DataFrame:
    """The first `limit` tasks of each split."""
    return tasks if limit is None else tasks.group_by("split", maintain_order=True).head(limit).select(tasks.columns)
