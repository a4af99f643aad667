"""Import of SkillRL's skill files as a bank: an entry becomes a skill, a category a talent.

Nothing is dropped in silence. Entries that repeat each other are all kept; keys that are not understood are kept
in the skill's metadata, or, at the top of the file, left out; all of these are reported.
"""

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from talentrl.bank.bank import NULL_TALENT, SkillBank
from talentrl.bank.frontmatter import MAX_NAME
from talentrl.bank.skill import SKILL_FILE, Skill, write_skill
from talentrl.bank.skillrl_file import Entry, read_skillrl_file
from talentrl.bank.talent import TALENT_FILE, Talent, write_talent
from talentrl.errors import InputError
from talentrl.files import atomic_path

CATEGORY_WEIGHT = 1.0
"""Association of a talent with the skills of its category."""
GENERAL_WEIGHT = 0.3
"""Association of every talent with the general skills: enough to lift them, too little to lead."""

_READ = {
    "general": ("skill_id", "title", "principle", "when_to_apply"),
    "category": ("skill_id", "title", "principle", "when_to_apply"),
    "mistake": ("mistake_id", "description", "why_it_happens", "how_to_avoid"),
}


@dataclass(frozen=True)
class Imported:
    """A bank made from a file, and an account of what was in the file."""

    bank: SkillBank
    general: int
    """Number of general skills."""
    categories: dict[str, int]
    """Talent id -> number of skills of its category."""
    mistakes: int
    notes: tuple[str, ...]
    """What was repeated, missing or not understood, one line each."""
    metadata: Any
    """The file's own account of how it was made; it is no part of the bank."""

    def summary(self) -> str:
        """The counts in one line."""
        own = sum(self.categories.values())
        return f"{self.general} general + {own} in {len(self.categories)} categories + {self.mistakes} mistakes"


def import_skillrl(path: Path, folder: Path) -> Imported:
    """Read SkillRL's file at `path` and write it as a bank into the new folder `folder`, whole or not at all.

    The folder's README.md holds the counts, the notes and the file's own metadata.

    Raises:
        InputError: `folder` exists, or see `read_skillrl`.
    """
    if folder.exists():
        raise InputError(f"{folder}: it exists already, expected the name of a new folder")
    imported = read_skillrl(path)
    with atomic_path(folder) as temporary:
        for skill in imported.bank.skills.values():
            write_skill(skill, temporary / "skills" / skill.id / SKILL_FILE)
        for talent in imported.bank.talents.values():
            write_talent(talent, temporary / "talents" / talent.id / TALENT_FILE)
        (temporary / "README.md").write_text(_readme(path, imported), encoding="utf-8")
    return imported


def read_skillrl(path: Path) -> Imported:
    """Read SkillRL's file at `path` as a bank.

    A talent is associated with the skills of its category and, more weakly, with the general ones; its strategy is
    the titles of its category's skills. A mistake has no association: similarity alone finds it.

    Raises:
        InputError: the file is missing or not JSON, has no categories, or an entry lacks a text.
    """
    file = read_skillrl_file(path)
    notes = [f"{path}: key {key!r} is not known, left out" for key in file.unknown]
    notes += [f"{path}: there is no {key!r}" for key in file.missing]
    skills: dict[str, Skill] = {}
    for entry in file.entries:
        skill = _mistake(entry) if entry.kind == "mistake" else _skill(entry)
        notes += _repetitions(entry, skill, skills)
        name = _unused(skill.id, skills)
        skills[name] = replace(skill, id=name, name=name)
    ids = list(skills)
    talents: dict[str, Talent] = {}
    counts: dict[str, int] = {}
    for category in file.categories:
        own = [name for name, entry in zip(ids, file.entries, strict=True) if entry.category == category]
        general = [name for name, entry in zip(ids, file.entries, strict=True) if entry.kind == "general"]
        talent = _talent(category, [skills[name] for name in own], general)
        name = _unused(talent.id, {NULL_TALENT, *talents})
        talents[name] = replace(talent, id=name, name=name)
        counts[name] = len(own)
        notes += [] if own else [f"{path}: category {category!r} has no skills"]
    kinds = [entry.kind for entry in file.entries]
    return Imported(
        SkillBank(skills, talents), kinds.count("general"), counts, kinds.count("mistake"), tuple(notes), file.metadata
    )


def _skill(entry: Entry) -> Skill:
    name = _slug(entry.text("skill_id"), f"{entry.where}.skill_id")
    types = (_slug(entry.category, entry.where),) if entry.category else ()
    return Skill(
        id=name,
        name=name,
        description=entry.text("title"),
        when_to_use=entry.text("when_to_apply", required=False),
        task_types=types,
        body=entry.text("principle"),
        extra={"metadata": _metadata(entry, "skill_id")},
    )


def _mistake(entry: Entry) -> Skill:
    name = _slug(entry.text("mistake_id"), f"{entry.where}.mistake_id")
    why = entry.text("why_it_happens", required=False)
    sentences = [f"Mistake: {entry.text('description')}", f"Why: {why}", f"Instead: {entry.text('how_to_avoid')}"]
    return Skill(
        id=name,
        name=name,
        description=entry.text("description"),
        body="\n\n".join(sentence for sentence in sentences if sentence != "Why: "),
        extra={"metadata": _metadata(entry, "mistake_id")},
    )


def _metadata(entry: Entry, id_field: str) -> dict[str, Any]:
    """Where a skill comes from, and the keys of its entry that have no place in a skill."""
    others = {key: value for key, value in entry.fields.items() if key not in _READ[entry.kind]}
    return {"kind": entry.kind, "source_id": entry.text(id_field), **({"other": json.dumps(others)} if others else {})}


def _talent(category: str, own: Sequence[Skill], general: Sequence[str]) -> Talent:
    name, words = _slug(category, f"category {category!r}"), " ".join(category.replace("_", " ").split())
    weights = {**dict.fromkeys(general, GENERAL_WEIGHT), **{skill.id: CATEGORY_WEIGHT for skill in own}}
    strategy = "; ".join(skill.description for skill in own) or "Use the general skills"
    return Talent(name, name, f"{words.capitalize()} tasks.", f"{strategy}.", weights)


def _repetitions(entry: Entry, skill: Skill, skills: dict[str, Skill]) -> list[str]:
    """Notes on what an entry repeats, and on its keys that are not known."""
    notes = []
    if skill.id in skills:
        notes.append(f"{entry.where}: id {skill.id!r} is used before, both kept")
    same = next((other.id for other in skills.values() if other.body == skill.body), None)
    if same:
        notes.append(f"{entry.where}: says the same as {same!r}, both kept")
    unknown = [key for key in entry.fields if key not in _READ[entry.kind]]
    if unknown:
        notes.append(f"{entry.where}: keys {unknown} are not known, kept in the skill's metadata")
    return notes


def _slug(name: str, where: str) -> str:
    """`name` as an id: lower case, runs of other characters as one hyphen."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug:
        raise InputError(f"{where}: found {name!r:.60}, expected a name with letters a-z or digits")
    return slug[: MAX_NAME - 5].rstrip("-")


def _unused(name: str, used: Container[str]) -> str:
    """`name`, or with the first number from 2 that makes it new."""
    found, number = name, 1
    while found in used:
        number += 1
        found = f"{name}-{number}"
    return found


def _readme(path: Path, imported: Imported) -> str:
    lines = [f"# {path.stem}", "", f"Imported from SkillRL's `{path.name}`: {imported.summary()}.", ""]
    lines += [f"- `{talent}`: {count} skills of its own" for talent, count in imported.categories.items()]
    if imported.notes:
        lines += ["", "## Notes", "", *(f"- {note}" for note in imported.notes)]
    if imported.metadata is not None:
        lines += ["", "## Metadata of the file", "", "```json", json.dumps(imported.metadata, indent=1), "```"]
    return "\n".join(lines) + "\n"
