"""Training histories: a JSON list with one object a step, which DVC plots and the report draw."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from talentrl.files import write_text


def write_history(path: Path, history: Sequence[dict[str, Any]]) -> None:
    """Write the numbers of a trainer's log history, keyed by `step`."""
    rows = [{k: v for k, v in entry.items() if isinstance(v, int | float)} for entry in history]
    write_text(path, json.dumps(rows, indent=1) + "\n")


def read_history(path: Path) -> pl.DataFrame:
    """A history as a frame, one column a metric."""
    return pl.DataFrame(json.loads(path.read_text(encoding="utf-8")), infer_schema_length=None)
