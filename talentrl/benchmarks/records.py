"""Records of benchmark files, each of which knows where it stands.

The model: a file (JSONL, a JSON list, TSV or CSV; plain, `.gz` or `.xz`) is a stream of `Record`s. A loader asks a
record for the fields that it needs, of the kind that it needs; a field that is missing or of another kind ends in
one line that names file, item and field.
"""

import csv
import gzip
import itertools
import json
import lzma
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from talentrl.errors import InputError

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
PACKED = tuple(_OPENERS)
"""Endings of files that `open_text` unpacks."""
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


class Record:
    """An object of a file. `where` says which, `prefix` is the path of the fields above it, if it is inside another."""

    def __init__(self, fields: object, where: str, prefix: str = "") -> None:
        """Take `fields`, which must be an object."""
        if not isinstance(fields, Mapping):
            found = f"field {prefix.rstrip('.')!r}: expected an object, found {_shown(fields)}" if prefix else None
            raise InputError(f"{where}: {found or f'expected an object, found {type(fields).__name__}'}")
        self.fields: Mapping[str, Any] = fields
        self.where = where
        self._prefix = prefix

    def __contains__(self, field: str) -> bool:
        """Whether the field is there and is not null."""
        return self.fields.get(field) is not None

    def get(self, field: str) -> Any:
        """The field as it stands; None where there is none."""
        return self.fields.get(field)

    def text(self, field: str) -> str:
        """A text that is not blank. Raises InputError."""
        value = self.fields.get(field)
        if not isinstance(value, str) or not value.strip():
            raise self.unexpected(field, "a text")
        return value

    def name(self, field: str) -> str:
        """A text, or a whole number as a text: ids are written as either. Raises InputError."""
        value = self.fields.get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(field)

    def texts(self, field: str) -> list[str]:
        """A list of one or more texts that are not blank. Raises InputError."""
        value = self.fields.get(field)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) and v.strip() for v in value):
            raise self.unexpected(field, "a list of texts")
        return value

    def values(self, field: str, of: str) -> list[Any]:
        """A list of anything; `of` says for the message what it should hold. Raises InputError."""
        value = self.fields.get(field)
        if not isinstance(value, list):
            raise self.unexpected(field, f"a list of {of}")
        return value

    def pairs(self, field: str) -> list[tuple[Any, Any]]:
        """A list of lists of two. Raises InputError."""
        value = self.values(field, "pairs")
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise self.unexpected(field, "a list of pairs")
        return [(first, second) for first, second in value]

    def record(self, field: str) -> "Record":
        """An object inside this one. Raises InputError."""
        return Record(self.fields.get(field), self.where, f"{self._prefix}{field}.")

    def records(self, field: str, of: str) -> list["Record"]:
        """A list of objects. Raises InputError."""
        return [
            Record(value, self.where, f"{self._prefix}{field}[{place}].")
            for place, value in enumerate(self.values(field, of))
        ]

    def unexpected(self, field: str, expected: str) -> InputError:
        """The error that says what was `expected` of a field, and what was found."""
        found = _shown(self.fields.get(field))
        return InputError(f"{self.where}: field {self._prefix + field!r}: expected {expected}, found {found}")


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file in its order.

    `.csv` and `.tsv` have a line of column names; any other file is JSONL, a JSON list, or a JSON object whose `Data`
    is a list (TriviaQA). `.gz` and `.xz` at the end of the name are unpacked.

    Raises:
        InputError: the file is missing or unreadable, or a record is not an object.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    packed = path.suffix in PACKED
    try:
        with open_text(path, "utf-8-sig", newline="") as file:
            delimiter = _DELIMITERS.get(path.with_suffix("").suffix if packed else path.suffix)
            yield from _table(file, path, delimiter) if delimiter else _json(file, path)
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not readable as {path.suffix or 'text'} ({error})") from error


def open_text(path: Path, encoding: str = "utf-8", newline: str | None = None) -> TextIO:
    """Open a text file to read; `.gz` and `.xz` are unpacked. Raises what `open`, `gzip` and `lzma` raise."""
    file: TextIO = _OPENERS.get(path.suffix, open)(path, "rt", encoding=encoding, newline=newline)
    return file


def _table(file: TextIO, path: Path, delimiter: str) -> Iterator[Record]:
    rows = csv.DictReader(file, delimiter=delimiter, strict=True)
    for row in rows:
        where = f"{path}:{rows.line_num}"
        if None in row or None in row.values():
            raise InputError(f"{where}: expected {len(rows.fieldnames or ())} columns, as in the first line")
        yield Record(row, where)


def _json(file: TextIO, path: Path) -> Iterator[Record]:
    lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    first = next(lines, None)
    if first is None:
        return
    if first[1].lstrip().startswith("[") or first[1].strip() == "{":  # one value for the whole file
        text = first[1] + "".join(line for _, line in lines)
        value = parse_json(text, str(path))
        yield from _whole(value, path)
        return
    for number, line in itertools.chain([first], lines):
        where = f"{path}:{number}"
        value = parse_json(line, where)
        if isinstance(value, dict) and isinstance(value.get("Data"), list):
            yield from _whole(value, path)
        else:
            yield Record(value, where)


def _whole(value: Any, path: Path) -> Iterator[Record]:
    """The records of a file that is one JSON value."""
    if isinstance(value, dict) and "Data" in value:
        value = value["Data"]
    for place, fields in enumerate(value if isinstance(value, list) else [value]):
        yield Record(fields, f"{path}[{place}]")


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text. Raises InputError if it is none, or holds a text that is not valid Unicode."""
    try:
        value = json.loads(text)
        if "\\ud" in text.lower():  # half of a pair of escapes is no character, and cannot be written again
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from error
    return value


def _shown(value: object) -> str:
    """`value` in a few characters, for a message."""
    return "nothing" if value is None else f"{value!r:.60}"
