"""The seven sets from the Hugging Face hub, or from its cache on this machine, through `datasets`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from talentrl.benchmarks.qa_cards import HUB, card
from talentrl.benchmarks.qa_sets import task_set
from talentrl.benchmarks.records import Record
from talentrl.benchmarks.taskset import TaskSet
from talentrl.errors import InputError


def load_qa_from_hub(name: str, split: str, corpus: Path, limit: int | None = None) -> TaskSet:
    """The first `limit` items of a split of set `name`; the hub copy has no paragraphs, so it needs a corpus.

    `HF_HUB_OFFLINE=1`, which the command line sets unless told otherwise, keeps to what was downloaded before.

    Raises:
        InputError: the set or split is unknown, there is no hub and no cached copy, or as `load_qa`.
    """
    about = card(name)
    if split not in about.hub_splits:
        raise InputError(f"{HUB}/{name}: found split {split!r}, expected one of {list(about.hub_splits)}")
    where = f"{HUB}/{name}/{split}"
    return task_set(about, _records(name, split, where), where, split, corpus, limit)


def _records(name: str, split: str, where: str) -> Iterator[Record]:
    import datasets  # takes a second, and few need it

    try:
        rows: Any = datasets.load_dataset(HUB, name, split=split)
    except (OSError, ValueError) as error:  # no network, offline and not cached, no such repository
        raise InputError(
            f"{where}: not to be had ({str(error).splitlines()[0]:.120}); set HF_HUB_OFFLINE=0 where there is a hub, "
            f"or give a file of the set as tasks.path"
        ) from error
    for number, row in enumerate(rows):
        yield Record(row, f"{where}[{number}]")
