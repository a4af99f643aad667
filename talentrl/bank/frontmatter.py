"""Markdown pages with YAML front matter: the shared form of SKILL.md and TALENT.md.

A page is a line `---`, a YAML 1.2 mapping, a line `---`, and a Markdown body. Only whole lines delimit, so a
description may contain `---`. Values become plain JSON data (dates stay text), so that what was read can be
hashed, compiled and written back. A page collects its problems, each with file and line, rather than stop at
the first one.
"""

import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from talentrl.errors import InputError

NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME = 64
MAX_DESCRIPTION = 1024

# Text that YAML 1.1 readers (most other tools) take for a boolean, a number or a date unless it is quoted.
_AMBIGUOUS = re.compile(r"[-+.]?\d[\w.:+-]*|y|n|yes|no|on|off", re.IGNORECASE)


class BankError(InputError):
    """Everything that is wrong with a skill bank or one of its pages; `problems` holds a line for each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        heading = [f"{len(problems)} problems in the skill bank:"] if len(problems) > 1 else []
        super().__init__("\n  ".join(heading + problems))


@dataclass
class Page:
    """One SKILL.md or TALENT.md as read: front matter, body, line numbers and the problems found so far.

    `lines` maps a key path, such as `("skills", "keep-names")`, to its line (from 1). `warnings` are faults
    that do no harm.
    """

    path: Path
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)
    body: str = ""
    body_line: int = 1
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """Name of the folder that holds the page; the id of what it describes."""
        return self.path.absolute().parent.name

    def at(self, what: str, *key: str) -> str:
        """Prefix `what` with the file and the line of `key` (line 1 where the key is absent)."""
        return f"{self.path}:{self.lines.get(key, 1)}: {what}"

    def text(self, *key: str, required: bool = False) -> str:
        """Text at a key path, stripped; "" and a problem where it is not text, or absent though required."""
        value: Any = self.values
        for part in key:
            value = value.get(part) if isinstance(value, dict) else None
        label = ".".join(key)
        if value is not None and not isinstance(value, str):
            what = f"`{label}` is {value!r}, expected text (put it in quotes)"
            self.problems.append(self.at(what, *key))
            return ""
        value = (value or "").strip()
        if required and not value:
            self.problems.append(self.at(f"`{label}` is missing or empty", *key))
        return value

    def name(self) -> str:
        """The `name`, checked against the Agent Skills rules and the folder."""
        name = self.text("name", required=True)
        if not name:
            return ""
        if not NAME.fullmatch(name) or len(name) > MAX_NAME:
            rule = f"expected 1 to {MAX_NAME} of a-z, 0-9 and single inner hyphens"
            self.problems.append(self.at(f"`name` is {name!r}, {rule}", "name"))
        if name != self.folder:
            self.problems.append(self.at(f"`name` is {name!r}, expected the folder's {self.folder!r}", "name"))
        return name

    def description(self) -> str:
        """The `description`; one that is too long is only a warning, since other tools write them."""
        description = self.text("description", required=True)
        if len(description) > MAX_DESCRIPTION:
            what = f"`description` has {len(description)} characters, more than {MAX_DESCRIPTION}"
            self.warnings.append(self.at(what, "description"))
        return description

    def check_body(self) -> None:
        """Note a problem if the body is empty; silent about a page that could not be read at all."""
        if not self.body and self.values:
            self.problems.append(f"{self.path}:{self.body_line}: the body is empty")

    def raise_problems(self) -> None:
        """Raise BankError if the page has problems."""
        if self.problems:
            raise BankError(self.problems)


def read_page(path: Path) -> Page:
    """Read a page; what stops that becomes its one problem, and its front matter stays empty."""
    page = Page(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        page.problems.append(page.at(f"cannot be read ({error.strerror})"))
        return page
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        page.problems.append(f"{path}:{line}: not UTF-8 text")
        return page
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    fences = [number for number, line in enumerate(lines) if line.rstrip() == "---"][:2]
    if fences[:1] != [0]:
        page.problems.append(page.at("no front matter, expected a first line `---`"))
    elif len(fences) < 2:
        page.problems.append(page.at("front matter is not closed, expected a second line `---`"))
    else:
        page.body_line = fences[1] + 2
        page.body = _trim("\n".join(lines[fences[1] + 1 :]))
        _read_yaml(page, "\n".join(lines[1 : fences[1]]) + "\n")
    return page


def render_page(values: dict[str, Any], body: str) -> str:
    """Text of a page: front matter in the given key order, a blank line, the body, one final newline."""
    stream = io.StringIO()
    _yaml().dump(values, stream)
    return f"---\n{stream.getvalue()}---\n\n{body}\n"


def _read_yaml(page: Page, text: str) -> None:
    """Fill `values` and `lines` from the YAML between the delimiters, which begins on line 2 of the file."""
    try:
        root = _yaml().compose(text)
        values = _plain(_yaml().load(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 2 if mark else 1
        page.problems.append(f"{page.path}:{line}: {_explain(error)}")
    except (YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        page.problems.append(page.at(f"front matter is not usable: {reason}"))
    else:
        if values is not None and not isinstance(values, dict):
            page.problems.append(f"{page.path}:2: front matter is not a mapping, expected `key: value` lines")
            return
        page.values = values or {}
        page.lines = _key_lines(root)
        if not page.values:
            page.problems.append(page.at("front matter is empty, expected `name` and `description`"))


def _explain(error: MarkedYAMLError) -> str:
    """One line on a YAML error; the commonest, a colon in unquoted text, is explained."""
    problem = (error.problem or "").splitlines()[0] if error.problem else "syntax error"
    if "mapping values are not allowed" in problem:
        return "a colon and a space inside unquoted text; put the whole value in quotes"
    return f"front matter is not valid YAML: {problem}"


def _key_lines(node: Node | None, prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    """Line in the file (from 1) of each key of a mapping and of the mappings directly inside it."""
    found: dict[tuple[str, ...], int] = {}
    if isinstance(node, MappingNode) and len(prefix) < 2:
        for key, value in node.value:
            if isinstance(key, ScalarNode):
                path = (*prefix, key.value)
                found[path] = key.start_mark.line + 2
                found.update(_key_lines(value, path))
    return found


def _plain(value: Any) -> Any:
    """`value` as JSON data, keys as text; ValueError for what it cannot hold (bytes, sets, surrogates)."""
    if isinstance(value, dict):
        return {_plain(key if isinstance(key, str) else str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        value.encode("utf-8")
    elif value is not None and not isinstance(value, bool | int | float):
        raise ValueError(f"a value of type {type(value).__name__}, expected text, numbers, lists or mappings")
    return value


def _trim(body: str) -> str:
    """`body` without blank lines at its ends; the first line keeps its indentation."""
    return re.sub(r"\A(?:[^\S\n]*\n)+", "", body).rstrip()


class _Constructor(SafeConstructor):
    """Keeps dates as the text they are, so that all values are JSON data."""


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


class _Representer(SafeRepresenter):
    """Quotes text that a YAML 1.1 reader would not read as text, and escapes line breaks of every kind."""

    def represent_str(self, data: str) -> Any:
        style = "'" if _AMBIGUOUS.fullmatch(data) else None
        style = style if data.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 1_000_000
    return yaml
