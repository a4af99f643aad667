"""Two runs compared: their metrics side by side and, where both left episodes, paired by task.

A metric that a run logged has no interval of its own, so its difference is a bare number and marked so. A run that
evaluated a system left the episodes, and the difference between two of them has an interval over the tasks that
they share: those with the same id and the same instruction.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from talentrl.errors import InputError
from talentrl.evaluation.statistics import Comparison, compare_paired
from talentrl.evaluation.summary import task_values

_OUTCOMES = ("return", "f1")
COMPARISON_SCHEMA = pl.Schema(
    {
        "metric": pl.String(),
        **dict.fromkeys(["first", "second", "difference", "low", "high", "p_value"], pl.Float64()),
        "tasks": pl.Int64(),
        "note": pl.String(),
    }
)


@dataclass(frozen=True)
class Side:
    """What is known of a run, or of the stages of a pipeline."""

    metrics: Mapping[str, float]
    """The last value of each metric."""
    episodes: Mapping[str, pl.DataFrame]
    """System → its episodes (`EPISODE_SCHEMA`), of all training seeds; "" where the system does not matter."""


@dataclass(frozen=True)
class PairedResult:
    """The difference second − first over the tasks that both answered, and the mean of each there."""

    first: float
    second: float
    comparison: Comparison
    note: str
    """What to know of it; empty if both answered the same tasks."""


def compare_runs(first: Side, second: Side) -> pl.DataFrame:
    """Each metric that both have (`COMPARISON_SCHEMA`): paired outcomes first, then bare differences."""
    rows: list[dict[str, object]] = []
    for system in [system for system in first.episodes if system in second.episodes]:
        for outcome in _OUTCOMES:
            pair = first.episodes[system], second.episodes[system]
            if all(frame[outcome].null_count() < frame.height for frame in pair):
                rows.append(_paired_row("/".join(filter(None, ["evaluate", system, outcome])), *pair, outcome))
    known = {row["metric"] for row in rows}
    for name in sorted(first.metrics.keys() & second.metrics.keys() - known):
        values = first.metrics[name], second.metrics[name]
        row = dict.fromkeys(COMPARISON_SCHEMA) | {"metric": name, "first": values[0], "second": values[1]}
        rows.append(row | {"difference": values[1] - values[0], "note": "no episodes"})
    return pl.DataFrame(rows, schema=COMPARISON_SCHEMA)


def compare_episodes(first: pl.DataFrame, second: pl.DataFrame, outcome: str = "return") -> PairedResult:
    """`second` minus `first` over the tasks that both answered.

    Raises:
        InputError: they share no task.
    """
    values = [_values(frame, outcome) for frame in (first, second)]
    shared = sorted(values[0].keys() & values[1].keys())
    if not shared:
        raise InputError(
            f"the episodes share no task ({len(values[0])} tasks and {len(values[1])}): "
            "expected two evaluations on the same benchmark, split and data seed"
        )
    note = "" if len(shared) == len(values[0]) == len(values[1]) else f"of {len(values[0])} and {len(values[1])} tasks"
    kept = [{task: part[task] for task in shared} for part in values]
    means = [sum(part.values()) / len(shared) for part in kept]
    return PairedResult(means[0], means[1], compare_paired(kept[1], kept[0]), note)


def _paired_row(name: str, first: pl.DataFrame, second: pl.DataFrame, outcome: str) -> dict[str, object]:
    try:
        result = compare_episodes(first, second, outcome)
    except InputError:
        return dict.fromkeys(COMPARISON_SCHEMA) | {"metric": name, "note": "no task in common"}
    difference = result.comparison.difference
    return {
        **{"metric": name, "first": result.first, "second": result.second, "difference": difference.value},
        **{"low": difference.low, "high": difference.high, "p_value": result.comparison.p_value},
        **{"tasks": difference.n, "note": result.note},
    }


def _values(episodes: pl.DataFrame, outcome: str) -> dict[str, float]:
    """Mean outcome a task over its rollouts and seeds; tasks of other data may have the same ids, so by both."""
    both = pl.concat_str("task_id", "instruction", separator="\n")
    return task_values("", episodes.with_columns(task_id=both), outcome)
