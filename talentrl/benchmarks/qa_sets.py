"""The seven question-answering sets as task sets, with the passages that a search looks in.

Two settings. Without a corpus, passages are the paragraphs of all items pooled without repetition, so a search has to
find an item's own among those of the others. With one, they are that collection, and items bring at most the ids of
passages in it.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from talentrl.benchmarks.corpus import PassageNames, read_corpus
from talentrl.benchmarks.qa_cards import Card, card
from talentrl.benchmarks.qa_formats import Item, read_item
from talentrl.benchmarks.records import Record, read_records
from talentrl.benchmarks.taskset import TASK_SCHEMA, TaskSet
from talentrl.errors import InputError


def load_qa(name: str, path: Path, corpus: Path | None = None, limit: int | None = None) -> TaskSet:
    """Read the first `limit` items of set `name` from a file in any format that `qa_formats` knows.

    An item's split is its own; else that of the file's name (`train.jsonl`, `hotpot_train_v1.1.json`), else the
    split of the set's card. Items without ids are numbered. The payload holds what the set states about an item
    (`qa_formats.Item.extra`), `passages` (ids of its own passages) and `supporting` (ids of those that are marked
    so; with a corpus, all of its own: a collection's items say no more). A corpus must be the collection that the
    items' `passage_ids` were made for; other collections number their passages otherwise.

    Raises:
        InputError: the name is unknown, a file is missing, empty or unreadable, an item breaks its format, or there
            are no passages; the message names file, item and field.
    """
    if limit is not None and limit < 1:
        raise InputError(f"{path}: limit: expected a number >= 1, found {limit}")
    return task_set(card(name), read_records(path), str(path), _split_of(path, card(name)), corpus, limit)


def task_set(
    about: Card, records: Iterable[Record], source: str, split: str, corpus: Path | None, limit: int | None
) -> TaskSet:
    """The tasks of `records`; `source` names them in messages, `split` is for items that have none of their own.

    Raises:
        InputError: as `load_qa`.
    """
    names = PassageNames()
    collection = read_corpus(corpus) if corpus else None
    known = set(collection["passage_id"]) if collection is not None else set()
    used: set[str] = set()
    rows: list[tuple[object, ...]] = []
    for record in records:
        if len(rows) == limit:
            break
        item = read_item(about.name, record)
        id = item.id or f"{about.name}_{item.split or split}_{len(rows)}"
        if id in used:
            raise InputError(f"{record.where}: field 'id': expected one not used before, found {id!r} again")
        used.add(id)
        own = _pooled(item, names) if collection is None else _linked(item, known, record)
        payload = item.extra | own
        rows.append((id, about.name, item.split or split, item.question, item.answers, json.dumps(payload)))
    if not rows:
        raise InputError(f"{source}: the file is empty, expected at least one item")
    passages = names.frame() if collection is None else collection
    if passages.is_empty():
        raise InputError(f"{source}: the items have no paragraphs of their own, expected a corpus to search in")
    return TaskSet(pl.DataFrame(rows, schema=TASK_SCHEMA, orient="row"), passages)


def _pooled(item: Item, names: PassageNames) -> dict[str, list[str]]:
    """The ids of the item's paragraphs, which are added to `names`."""
    placed = [(names.add(paragraph.title, paragraph.text), paragraph) for paragraph in item.paragraphs or ()]
    return {
        "passages": [id for id, _ in placed],
        "supporting": [id for id, paragraph in placed if paragraph.supporting],
    }


def _linked(item: Item, known: set[str], record: Record) -> dict[str, list[str]]:
    """The ids of the item's passages in the collection."""
    ids = item.passage_ids or []
    missing = [id for id in ids if id not in known]
    if missing:
        raise record.unexpected("passage_ids", f"ids of passages in the corpus (it has no {missing[0]!r})")
    return {"passages": ids, "supporting": ids}


def _split_of(path: Path, about: Card) -> str:
    """The split that a file's name tells of: plainly `train`, `dev` or `test`, or a `train` somewhere in it."""
    stem = path.name.split(".")[0].lower()
    if stem in ("train", "dev", "test"):
        return stem
    return "train" if "train" in re.split(r"[^a-z]+", path.name.lower()) else about.split
