"""SkillBank: all skills and talents of a project, validated as a whole and named by a content digest.

A bank is a folder with `skills/<id>/SKILL.md` and `talents/<id>/TALENT.md`, or one compiled JSON file that
later stages read. The digest covers content only: layout of the files and line endings do not change it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from talentrl.bank.frontmatter import BankError, Page, read_page
from talentrl.bank.skill import SKILL_FILE, Skill, skill_from_page
from talentrl.bank.talent import TALENT_FILE, Talent, talent_from_page
from talentrl.errors import InputError
from talentrl.files import sha256, write_text

FORMAT = "talentrl-bank-1"
NULL_TALENT = "none"
"""The id that stands for no talent in a routing turn; no talent may have it."""


@dataclass(frozen=True)
class SkillBank:
    """Skills and talents by id, sorted by id; `warnings` are harmless faults found on loading."""

    skills: dict[str, Skill]
    talents: dict[str, Talent]
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "skills", dict(sorted(self.skills.items())))
        object.__setattr__(self, "talents", dict(sorted(self.talents.items())))

    @cached_property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 of the content as canonical JSON."""
        return _digest(self._content())

    @classmethod
    def load(cls, folder: Path) -> "SkillBank":
        """Read and validate a bank folder; BankError lists all problems, each as `file:line: what`."""
        if not folder.is_dir():
            raise BankError([f"{folder}: no such folder, expected a skill bank"])
        skill_pages, problems = _read_pages(folder / "skills", SKILL_FILE)
        talent_pages, more = _read_pages(folder / "talents", TALENT_FILE)
        problems += more
        skills = [skill_from_page(page) for page in skill_pages]
        talents = [talent_from_page(page) for page in talent_pages]
        # A skill whose own page is broken is no dangling association: its problem is listed already.
        known = {page.folder for page in skill_pages} | {skill.id for skill in skills}
        for page, talent in zip(talent_pages, talents, strict=True):
            for missing in [skill for skill in talent.skills if skill not in known]:
                what = f"talent {talent.id!r} names skill {missing!r}, which is not in the bank"
                page.problems.append(page.at(what, "skills", missing))
        for page, talent in zip(talent_pages, talents, strict=True):
            if talent.id == NULL_TALENT:
                page.problems.append(page.at(f"talent id {NULL_TALENT!r} is reserved for the null talent", "name"))
        _note_duplicates(skill_pages, skills)
        _note_duplicates(talent_pages, talents)
        pages = skill_pages + talent_pages
        problems += [problem for page in pages for problem in page.problems]
        if problems:
            raise BankError(problems)
        return cls(
            skills={skill.id: skill for skill in skills},
            talents={talent.id: talent for talent in talents},
            warnings=tuple(warning for page in pages for warning in page.warnings),
        )

    def write_json(self, path: Path) -> None:
        """Write the compiled bank to one file, atomically."""
        compiled = {"format": FORMAT, "digest": self.digest, **self._content()}
        write_text(path, json.dumps(compiled, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def read_json(cls, path: Path) -> "SkillBank":
        """Read a compiled bank; InputError if it is missing, broken, or not what its digest says."""
        try:
            compiled = json.loads(path.read_text(encoding="utf-8"))
            content = {"skills": compiled["skills"], "talents": compiled["talents"]}
            if compiled["format"] != FORMAT:
                raise ValueError(f"format {compiled['format']!r}, expected {FORMAT!r}")
            if compiled["digest"] != _digest(content):
                raise ValueError("its content does not match its digest")
            skills = [Skill(**{**row, "task_types": tuple(row["task_types"])}) for row in content["skills"]]
            talents = [Talent(**row) for row in content["talents"]]
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}), expected a compiled bank") from None
        except KeyError as error:
            raise InputError(f"{path}: not a compiled skill bank: no {error}; build the bank again") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: not a compiled skill bank: {error}; build the bank again") from None
        return cls({skill.id: skill for skill in skills}, {talent.id: talent for talent in talents})

    def _content(self) -> dict[str, Any]:
        """All that the digest covers, as JSON data."""
        return {
            "skills": [asdict(skill) for skill in self.skills.values()],
            "talents": [asdict(talent) for talent in self.talents.values()],
        }


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode("ascii"))[:16]


def _read_pages(folder: Path, file: str) -> tuple[list[Page], list[str]]:
    """Pages `folder/*/file` in the order of their folders, and the problems of the folder itself."""
    if not folder.is_dir():
        return [], [f"{folder}: no such folder, expected one folder with {file} for each entry"]
    entries = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not entries:
        return [], [f"{folder}: empty, expected at least one folder with {file}"]
    return [read_page(entry / file) for entry in entries], []


def _note_duplicates(pages: list[Page], items: Sequence[Skill | Talent]) -> None:
    """Note a problem on each page whose id an earlier page already has."""
    first: dict[str, Page] = {}
    for page, item in zip(pages, items, strict=True):
        if item.id and first.setdefault(item.id, page) is not page:
            page.problems.append(page.at(f"id {item.id!r} is already used by {first[item.id].path}", "name"))
