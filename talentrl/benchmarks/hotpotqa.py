"""HotpotQA items with their paragraphs, from a JSONL file, as a task set.

Data: HotpotQA (Yang et al., 2018, https://hotpotqa.github.io, CC BY-SA 4.0). The paragraphs of all items are
pooled without repetition, so a search has to find an item's own among those of the others.
"""

import gzip
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, TASK_SCHEMA, TaskSet
from talentrl.errors import InputError


def load_hotpotqa(path: Path, limit: int | None = None) -> TaskSet:
    """Read the first `limit` items of a JSONL file (plain, `.gz` or `.xz`) and pool their paragraphs.

    An item has `id`, `split` (kept as it is), `question`, `answers` (one or more) and `context`, a list of
    `{title, text, supporting}`; `type` and `level` are optional. A task's payload holds `type`, `level` and
    `supporting`, the ids of the passages that are marked so. A passage's id is its title; more texts of one
    title get "#2", "#3".

    Raises:
        InputError: the file is missing, empty or unreadable, or a line breaks the format; the message names
            file, line and field.
    """
    if limit is not None and limit < 1:
        raise InputError(f"{path}: limit: expected a number >= 1, found {limit}")
    passages: dict[str, tuple[str, str]] = {}
    ids: set[str] = set()
    rows: list[tuple[object, ...]] = []
    for number, line in _lines(path):
        if len(rows) == limit:
            break
        where = f"{path}:{number}"
        item = _parse(line, where)
        if item["id"] in ids:
            raise InputError(f"{where}: field 'id': expected one not used before, found {item['id']!r} again")
        ids.add(item["id"])
        supporting = _pool(item["context"], passages, where)
        payload = {"type": item.get("type"), "level": item.get("level"), "supporting": supporting}
        rows.append((item["id"], "hotpotqa", item["split"], item["question"], item["answers"], json.dumps(payload)))
    if not rows:
        raise InputError(f"{path}: the file is empty, expected at least one item")
    return TaskSet(
        pl.DataFrame(rows, schema=TASK_SCHEMA, orient="row"),
        pl.DataFrame(
            [(name, *paragraph) for name, paragraph in passages.items()],
            schema=PASSAGE_SCHEMA,
            orient="row",
        ),
    )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not blank."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    openers: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    try:
        with openers.get(path.suffix, open)(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable as {path.suffix or 'text'} ({error})") from error


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error})") from error
    if not isinstance(item, dict):
        raise InputError(f"{where}: expected an object, found {type(item).__name__}")
    for field in ("id", "split", "question"):
        _text(item, field, where)
    answers = item.get("answers")
    texts = isinstance(answers, list) and all(isinstance(text, str) and text.strip() for text in answers)
    if not answers or not texts:
        raise InputError(f"{where}: field 'answers': expected a list of texts, found {_shown(answers)}")
    if not isinstance(item.get("context"), list) or not item["context"]:
        raise InputError(
            f"{where}: field 'context': expected a list of paragraphs, found {_shown(item.get('context'))}"
        )
    return item


def _pool(context: list[Any], passages: dict[str, tuple[str, str]], where: str) -> list[str]:
    """Add an item's paragraphs to `passages` (id → title, text); the ids of those marked as supporting."""
    supporting = []
    for position, paragraph in enumerate(context):
        field = f"context[{position}]"
        if not isinstance(paragraph, dict):
            raise InputError(f"{where}: field {field!r}: expected an object, found {_shown(paragraph)}")
        title, text = (_text(paragraph, name, where, f"{field}.") for name in ("title", "text"))
        name, number = title, 1
        while passages.setdefault(name, (title, text)) != (title, text):
            number += 1
            name = f"{title}#{number}"
        if paragraph.get("supporting"):
            supporting.append(name)
    return supporting


def _text(item: dict[str, Any], field: str, where: str, prefix: str = "") -> str:
    value = item.get(field)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: field {prefix + field!r}: expected a text, found {_shown(value)}")
    return value


def _shown(value: object) -> str:
    """`value` in a few characters, for a message."""
    return "nothing" if value is None else f"{value!r:.60}"
