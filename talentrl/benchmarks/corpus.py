"""A collection of passages to search, from a JSONL file: the Wikipedia-2018 form and its relatives."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from talentrl.benchmarks.records import Record, read_records
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA
from talentrl.errors import InputError

_BLOCK = 100_000  # passages held as Python objects at once: a whole Wikipedia has 21 million


class PassageNames:
    """Ids for passages that have none: the title; more texts of one title get "#2", "#3"; equal passages are one."""

    def __init__(self) -> None:
        """Start with no passage."""
        self.passages: dict[str, tuple[str, str]] = {}

    def add(self, title: str, text: str) -> str:
        """The id of the passage."""
        name, number = title, 1
        while self.passages.setdefault(name, (title, text)) != (title, text):
            number += 1
            name = f"{title}#{number}"
        return name

    def frame(self) -> pl.DataFrame:
        """The passages (`PASSAGE_SCHEMA`) in the order in which they came."""
        rows = [(name, *passage) for name, passage in self.passages.items()]
        return pl.DataFrame(rows, schema=PASSAGE_SCHEMA, orient="row")


def read_corpus(path: Path) -> pl.DataFrame:
    """Read a collection (`PASSAGE_SCHEMA`) from a file of passages, plain, `.gz` or `.xz`.

    A passage has `text` and `title`, or `contents`: the title in double quotes, a line break, the text. Its id is
    `id`, a text or a whole number. If the first passage has none, all are named as by `PassageNames`.

    Raises:
        InputError: the file is missing, empty or unreadable, a passage breaks the format, or an id occurs twice.
    """
    records = read_records(path)
    first = next(records, None)
    if first is None:
        raise InputError(f"{path}: the file is empty, expected at least one passage")
    if "id" not in first:
        names = PassageNames()
        for record in _with(first, records):
            names.add(*_passage(record))
        return names.frame()
    rows = ((record.name("id"), *_passage(record)) for record in _with(first, records))
    blocks = []
    while block := list(islice(rows, _BLOCK)):
        blocks.append(pl.DataFrame(block, schema=PASSAGE_SCHEMA, orient="row"))
    frame = pl.concat(blocks)
    again = frame.filter(pl.col("passage_id").is_duplicated())
    if not again.is_empty():
        raise InputError(f"{path}: field 'id': expected ids used once, found {again['passage_id'][0]!r} again")
    return frame


def _with(first: Record, rest: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rest


def _passage(record: Record) -> tuple[str, str]:
    """Title and text."""
    if "contents" not in record:
        return record.text("title"), record.text("text")
    title, line_break, text = record.text("contents").partition("\n")
    title = title.strip()
    if title.startswith('"') and title.endswith('"') and len(title) > 1:
        title = title[1:-1]
    if not line_break or not title.strip() or not text.strip():
        raise record.unexpected("contents", "a title, a line break and a text")
    return title, text
