"""WebShop's published files: where they lie in a folder, and their JSON read piece by piece.

The full product file is one JSON array of some 5 GB, so arrays are decoded object by object.
"""

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TextIO

from talentrl.benchmarks.records import open_text
from talentrl.errors import InputError

Catalogue = Literal["small", "full"]
"""`small`: the 1,000 products most work is done on; `full`: all 1.18 million."""

NAMES: dict[str, dict[Catalogue, tuple[str, ...]]] = {
    "products": {"small": ("items_shuffle_1000",), "full": ("items_shuffle",)},
    "attributes": {"small": ("items_ins_v2_1000",), "full": ("items_ins_v2",)},
    "human instructions": {"small": ("items_human_ins_1000", "items_human_ins"), "full": ("items_human_ins",)},
    "title nouns": {
        "small": ("title_nouns_1000", "title_nouns_spacy_en_core_web_sm_3.8"),
        "full": ("title_nouns",),
    },
}
"""File names without their endings, by what is in them; the first that exists is read."""

ENDINGS = (".json", ".jsonl", ".json.xz", ".jsonl.xz", ".json.gz", ".jsonl.gz")
_CHUNK = 1 << 20


def find_file(folder: Path, content: str, catalogue: Catalogue) -> Path:
    """The file in `folder` that holds `content`, a key of `NAMES`.

    Raises:
        InputError: there is none.
    """
    names = NAMES[content][catalogue]
    for path in (folder / f"{name}{ending}" for name in names for ending in ENDINGS):
        if path.is_file():
            return path
    raise InputError(
        f"{folder}: no {content} of the {catalogue} catalogue, expected {' or '.join(names)} "
        f"with one of the endings {', '.join(ENDINGS)}"
    )


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON array or of JSON lines, one at a time.

    Raises:
        InputError: the file is missing, cut off, or not that; the message counts objects from 1.
    """
    number = 0
    with _Opened(path) as file:
        for number, value in enumerate(_values(file, path), start=1):
            if not isinstance(value, dict):
                raise InputError(f"{path}: item {number}: expected an object, found {type(value).__name__}")
            yield value
    if number == 0:
        raise InputError(f"{path}: the file is empty, expected at least one object")


def read_mapping(path: Path) -> dict[str, Any]:
    """A file that is one JSON object.

    Raises:
        InputError: the file is missing, cut off, or not that.
    """
    with _Opened(path) as file:
        try:
            value = json.load(file)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}: not JSON, or cut off ({error})") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected an object, found {type(value).__name__}")
    return value


class _Opened:
    """A plain, `.xz` or `.gz` text file; trouble in reading it is an `InputError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> TextIO:
        if not self._path.is_file():
            raise InputError(f"{self._path}: no such file")
        self._file = open_text(self._path)
        return self._file

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._file.close()
        if isinstance(error, (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError)):
            raise InputError(f"{self._path}: not readable, or cut off ({error})") from error


def _values(file: TextIO, path: Path) -> Iterator[Any]:
    """The values of an array, or values that follow one another; reads no further than the next value needs."""
    decoder, text, ended = json.JSONDecoder(), "", False
    opened = closed = False
    count, wanted = 0, 0
    while True:
        text = text.lstrip(" \t\r\n," if opened or count else " \t\r\n\ufeff")
        if not opened and not count and text.startswith("["):
            opened, text = True, text[1:]
            continue
        if opened and text.startswith("]"):
            closed = True
            break
        if len(text) > wanted or ended:
            try:
                value, end = decoder.raw_decode(text)
            except ValueError as error:
                if ended:
                    if not text:
                        break
                    raise InputError(f"{path}: item {count + 1}: not JSON, or cut off ({error})") from error
                wanted = 2 * len(text)  # a long value is not decoded again for every chunk of it
            else:
                if end < len(text) or ended:
                    yield value
                    count, text, wanted = count + 1, text[end:], 0
                    continue
        chunk = file.read(_CHUNK)
        text, ended = text + chunk, not chunk
    if opened and not closed:
        raise InputError(f"{path}: cut off after item {count}: the array has no end")
