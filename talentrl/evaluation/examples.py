"""Whole episodes to read, picked by rule and not by taste.

The model: an example is one task under the trained system, with the supervised system's episode of the same
task beside it. Within each kind, tasks come in the order of a hash of their ids: fixed, and unrelated to how
they read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from talentrl.files import sha256

Row = dict[str, Any]
_KINDS = (
    ("RL right where SFT is wrong", 2, lambda rl, sft: rl and not sft),
    ("RL wrong where SFT is right", 1, lambda rl, sft: not rl and sft),
    ("Both right", 1, lambda rl, sft: rl and sft),
    ("Both wrong", 1, lambda rl, sft: not rl and not sft),
)
_KINDS_ALONE = (("Right", 2, lambda right, _: right), ("Wrong", 2, lambda right, _: not right))


@dataclass(frozen=True)
class Example:
    """One task to read: `main` is the episode of the most trained system present, `other` SFT's beside it."""

    kind: str
    main: Row
    main_system: str
    other: Row | None


def pick_examples(systems: dict[str, pl.DataFrame]) -> list[Example]:
    """A few episodes of `rl` beside `sft`, or of one of them alone; empty when both are absent."""
    rl, sft = (_first_episodes(systems[name]) if name in systems else {} for name in ("rl", "sft"))
    if not rl or not sft:
        return list(_pick("rl" if rl else "sft", rl or sft, {}, _KINDS_ALONE))
    return list(_pick("rl", rl, sft, _KINDS))


def _first_episodes(frame: pl.DataFrame) -> dict[str, Row]:
    """The first episode of each task (lowest training seed, then id), tasks in hashed order."""
    first = frame.sort("run_seed", "episode_id").unique("task_id", keep="first", maintain_order=True)
    rows = {row["task_id"]: row for row in first.iter_rows(named=True)}
    return dict(sorted(rows.items(), key=lambda item: sha256(item[0].encode())))


def _pick(system: str, main: dict[str, Row], other: dict[str, Row], kinds: tuple[Any, ...]) -> Iterator[Example]:
    for kind, limit, belongs in kinds:
        found = (task for task in main if belongs(_right(main[task]), _right(other.get(task))))
        for task, _ in zip(found, range(limit), strict=False):
            yield Example(kind, main[task], system, other.get(task))


def _right(row: Row | None) -> bool:
    return row is not None and row["return"] == 1.0
