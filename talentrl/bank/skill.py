"""Skill: a fine-grained procedure in natural language, one folder with a SKILL.md in the Agent Skills format.

Ours are `metadata.when_to_use` and `metadata.task_types`; every other key of the file is kept in `extra`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from talentrl.bank.frontmatter import Page, read_page, render_page
from talentrl.files import write_text

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True)
class Skill:
    """A procedure. `id`, `name` and the folder name are equal; `extra` is front matter that is not ours.

    `task_types_as_list` says that the file gave `task_types` as a YAML list rather than as words of one
    string (the format's own `metadata` holds strings only), so that writing gives back what was read.
    """

    id: str
    name: str
    description: str
    when_to_use: str = ""
    task_types: tuple[str, ...] = ()
    body: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    task_types_as_list: bool = False


def read_skill(path: Path) -> Skill:
    """Read a SKILL.md; BankError with all its problems if it breaks the format."""
    page = read_page(path)
    skill = skill_from_page(page)
    page.raise_problems()
    return skill


def write_skill(skill: Skill, path: Path) -> None:
    """Write `skill` to the SKILL.md at `path`, atomically."""
    write_text(path, render_skill(skill))


def render_skill(skill: Skill) -> str:
    """Text of the skill's SKILL.md."""
    metadata = dict(skill.extra.get("metadata", {}))
    if skill.when_to_use:
        metadata["when_to_use"] = skill.when_to_use
    if skill.task_types:
        one_word_each = all(len(name.split()) == 1 for name in skill.task_types)
        as_text = one_word_each and not skill.task_types_as_list
        metadata["task_types"] = " ".join(skill.task_types) if as_text else list(skill.task_types)
    values = {"name": skill.name, "description": skill.description, **skill.extra}
    if metadata or "metadata" in skill.extra:
        values["metadata"] = metadata
    return render_page(values, skill.body)


def skill_from_page(page: Page) -> Skill:
    """Skill of a page; what is wrong is added to `page.problems`, and the skill is then of no use."""
    if not page.values:
        return Skill(page.folder, page.folder, "")
    page.check_body()
    extra = {key: value for key, value in page.values.items() if key not in ("name", "description", "metadata")}
    metadata = page.values.get("metadata")
    if isinstance(metadata, dict):
        others = {key: value for key, value in metadata.items() if key not in ("when_to_use", "task_types")}
        if others or not metadata:
            extra["metadata"] = others
    elif metadata is not None:
        page.problems.append(page.at(f"`metadata` is {metadata!r}, expected a mapping", "metadata"))
    task_types, as_list = _task_types(page)
    name = page.name()
    return Skill(
        id=name,
        name=name,
        description=page.description(),
        when_to_use=page.text("metadata", "when_to_use"),
        task_types=task_types,
        body=page.body,
        extra=extra,
        task_types_as_list=as_list,
    )


def _task_types(page: Page) -> tuple[tuple[str, ...], bool]:
    """Task types of a page, and whether they were a YAML list."""
    metadata = page.values.get("metadata")
    found = metadata.get("task_types") if isinstance(metadata, dict) else None
    if isinstance(found, list):
        if all(isinstance(item, str) and item.strip() for item in found):
            return tuple(item.strip() for item in found), bool(found)
    elif found is None or isinstance(found, str):
        return tuple((found or "").split()), False
    what = f"`metadata.task_types` is {found!r}, expected a list of names or one string of them"
    page.problems.append(page.at(what, "metadata", "task_types"))
    return (), False
