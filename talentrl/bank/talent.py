"""Talent: a coarse strategy with the skills that go with it, one folder with a TALENT.md.

The front matter holds `skills: {skill-id: weight}`, the body is the strategy. Retrieval multiplies the
weights, which lie in (0, 1], by the prior weight.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from talentrl.bank.frontmatter import Page, read_page, render_page
from talentrl.files import write_text

TALENT_FILE = "TALENT.md"


@dataclass(frozen=True)
class Talent:
    """A strategy. `skills` are the associations {skill id: weight}; `extra` is unknown front matter."""

    id: str
    name: str
    description: str
    strategy: str = ""
    skills: dict[str, float] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


def read_talent(path: Path) -> Talent:
    """Read a TALENT.md; BankError with all its problems if it breaks the format."""
    page = read_page(path)
    talent = talent_from_page(page)
    page.raise_problems()
    return talent


def write_talent(talent: Talent, path: Path) -> None:
    """Write `talent` to the TALENT.md at `path`, atomically."""
    write_text(path, render_talent(talent))


def render_talent(talent: Talent) -> str:
    """Text of the talent's TALENT.md."""
    values: dict[str, Any] = {"name": talent.name, "description": talent.description}
    if talent.skills:
        values["skills"] = dict(talent.skills)
    return render_page({**values, **talent.extra}, talent.strategy)


def talent_from_page(page: Page) -> Talent:
    """Talent of a page; what is wrong is added to `page.problems`, and the talent is then of no use."""
    if not page.values:
        return Talent(page.folder, page.folder, "")
    page.check_body()
    ours = ("name", "description", "skills")
    name = page.name()
    return Talent(
        id=name,
        name=name,
        description=page.description(),
        strategy=page.body,
        skills=_associations(page),
        extra={key: value for key, value in page.values.items() if key not in ours},
    )


def _associations(page: Page) -> dict[str, float]:
    """Associations of a page that are sound; the others become problems. A talent may have none."""
    found = page.values.get("skills")
    if found is None:
        return {}
    if not isinstance(found, dict):
        page.problems.append(page.at(f"`skills` is {found!r}, expected a mapping skill-id: weight", "skills"))
        return {}
    sound: dict[str, float] = {}
    for skill, weight in found.items():
        # bool is an int in Python; NaN fails the comparison.
        if isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight <= 1:
            sound[skill] = float(weight)
        else:
            what = f"weight of skill {skill!r} is {weight!r}, expected a number above 0 and at most 1"
            page.problems.append(page.at(what, "skills", skill))
    return sound
