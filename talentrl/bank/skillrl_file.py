"""SkillRL's skill files (https://github.com/aiming-lab/SkillRL) as they are: one JSON object.

It holds `general_skills`, a list; `task_specific_skills` or `query_type_skills`, lists by category; and
`common_mistakes`, a list. `metadata` tells how the file was made.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from talentrl.errors import InputError

CATEGORY_KEYS = ("task_specific_skills", "query_type_skills")
"""The two names under which files hold their skills by category."""
KEYS = ("general_skills", *CATEGORY_KEYS, "common_mistakes", "metadata")

Kind = Literal["general", "category", "mistake"]


@dataclass(frozen=True)
class Entry:
    """One skill or mistake of a file; `where` is its file and field, for messages."""

    where: str
    kind: Kind
    category: str | None
    fields: dict[str, Any]

    def text(self, field: str, required: bool = True) -> str:
        """A text of the entry as one line; "" where it is not required and absent.

        Raises:
            InputError: it is no text, or is required and empty.
        """
        found = self.fields.get(field)
        if found is None and not required:
            return ""
        if not isinstance(found, str) or (required and not found.strip()):
            raise InputError(f"{self.where}.{field}: found {found!r:.60}, expected a text")
        return " ".join(found.split())


@dataclass(frozen=True)
class SkillRLFile:
    """Entries in file order, names of the categories, and top-level keys that are not known or are missing."""

    entries: tuple[Entry, ...]
    categories: tuple[str, ...]
    unknown: tuple[str, ...]
    missing: tuple[str, ...]
    metadata: Any


def read_skillrl_file(path: Path) -> SkillRLFile:
    """Read the file at `path`.

    Raises:
        InputError: it is missing, not JSON, has no categories, or has something else where a list of objects or an
            object is expected.
    """
    source = _mapping(_json(path), f"{path}")
    groups = {key: _mapping(source[key], f"{path}: {key}") for key in CATEGORY_KEYS if key in source}
    categories = tuple(dict.fromkeys(category for group in groups.values() for category in group))
    if not categories:
        raise InputError(f"{path}: found keys {list(source)}, expected categories in {' or '.join(CATEGORY_KEYS)}")
    entries = list(_entries(source.get("general_skills", []), f"{path}: general_skills", "general"))
    for key, group in groups.items():
        for category, items in group.items():
            entries += _entries(items, f"{path}: {key}.{category}", "category", category)
    entries += _entries(source.get("common_mistakes", []), f"{path}: common_mistakes", "mistake")
    return SkillRLFile(
        tuple(entries),
        categories,
        unknown=tuple(key for key in source if key not in KEYS),
        missing=tuple(key for key in ("general_skills", "common_mistakes") if key not in source),
        metadata=source.get("metadata"),
    )


def _json(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = json.loads(text, object_pairs_hook=_unrepeated)
        json.dumps(found, ensure_ascii=False).encode("utf-8")  # half a surrogate pair cannot be written again
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON in UTF-8 ({str(error)[:80]})") from error
    return found


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a key that stands twice, Python would keep the last in silence."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a key stands twice among {[key for key, _ in pairs]}")
    return found


def _mapping(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InputError(f"{where}: found {type(found).__name__}, expected an object")
    return found


def _entries(items: Any, where: str, kind: Kind, category: str | None = None) -> Iterator[Entry]:
    if not isinstance(items, list):
        raise InputError(f"{where}: found {type(items).__name__}, expected a list")
    for position, item in enumerate(items):
        place = f"{where}[{position}]"
        yield Entry(place, kind, category, _mapping(item, place))
