"""A sweep file: named rows, each params.yaml with some other values.

    target: evaluate              # the DVC stage that each row runs, with all it needs
    reference: reference          # the row that the others are compared with
    shared: {evaluate: {tasks: 100}}
    rows:
      reference: {}
      one_step: {rl: {steps: 1}}

A row's settings are those of params.yaml, then of `shared`, then its own; they are checked as params.yaml is.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from talentrl.config import Params, Section, read_yaml, validated, with_overlay
from talentrl.errors import InputError

NAME = r"^[a-z0-9][a-z0-9_-]*$"
"""Of sweeps and rows: it names folders, tags of runs, and an artifact in Prefect, which takes little else."""
RowName = Annotated[str, Field(pattern=NAME)]


class SweepFile(Section):
    """What a sweep file holds."""

    target: str = "evaluate"
    reference: str
    shared: Annotated[dict[str, Any], Field(default_factory=dict)]
    rows: Annotated[dict[RowName, dict[str, Any]], Field(min_length=1)]


@dataclass(frozen=True)
class Row:
    """One row: its name, what it sets beyond the shared settings, and all its settings."""

    name: str
    changes: dict[str, Any]
    params: Params


@dataclass(frozen=True)
class Sweep:
    """A checked sweep file; its name is the file's."""

    name: str
    target: str
    reference: str
    rows: dict[str, Row]


def load_sweep(path: Path, params: Params) -> Sweep:
    """Read and check the sweep in `path` over `params`.

    Raises:
        InputError: the file is missing, broken or named badly, it has no rows, a key is unknown or a value bad, the
            reference is no row or is not evaluated as `rl`, or two rows have the same settings; the message names the
            row.
    """
    file = validated(SweepFile, read_yaml(path), str(path))
    if not re.fullmatch(NAME, path.stem):
        raise InputError(f"{path}: found the file name {path.stem!r}, expected text that matches {NAME}")
    if file.reference not in file.rows:
        raise InputError(f"{path}: reference: found {file.reference!r}, expected one of {', '.join(file.rows)}")
    shared = with_overlay(params, file.shared, f"{path}: shared")
    rows: dict[str, Row] = {}
    for name, changes in file.rows.items():
        row = Row(name, changes, with_overlay(shared, changes, f"{path}: row {name}"))
        if twin := next((other.name for other in rows.values() if other.params == row.params), None):
            raise InputError(f"{path}: row {name}: has the settings of row {twin}, expected other ones")
        rows[name] = row
    if "rl" not in (systems := rows[file.reference].params.evaluate.systems):
        raise InputError(
            f"{path}: row {file.reference}: evaluate.systems: found {systems}, expected rl among them: "
            "the other rows are compared with it"
        )
    return Sweep(path.stem, file.target, file.reference, rows)
