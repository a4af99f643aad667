"""One door to all benchmarks."""

from pathlib import Path

from talentrl.benchmarks.atlas import build_atlas
from talentrl.benchmarks.qa_sets import load_qa
from talentrl.benchmarks.taskset import TaskSet
from talentrl.config import TasksSection
from talentrl.errors import InputError


def load_benchmark(settings: TasksSection, seed: int) -> TaskSet:
    """The task set that `settings` names.

    Raises:
        InputError: a benchmark that is read has no `path`, or its file is missing or broken.
    """
    if settings.benchmark == "atlas":
        return build_atlas(seed, settings.train, settings.dev, settings.test)
    if settings.path is None:
        raise InputError(f"tasks.path: found null, expected the file of benchmark {settings.benchmark!r}")
    return load_qa(settings.benchmark, Path(settings.path))
