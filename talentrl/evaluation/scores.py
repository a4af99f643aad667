"""The figures that a benchmark is judged by, from the episodes of one split."""

from collections.abc import Mapping

import polars as pl

from talentrl.evaluation.statistics import mean_interval
from talentrl.evaluation.summary import task_values

SCORE_SCHEMA = pl.Schema(
    {
        **dict.fromkeys(("system", "group", "metric"), pl.String()),
        **dict.fromkeys(("value", "low", "high"), pl.Float64()),
        **dict.fromkeys(("tasks", "failed"), pl.Int64()),
    }
)
ALL = "all"
_METRICS = {"alfworld": ("success",), "webshop": ("score", "success")}
_ANSWERS = ("exact_match", "f1")


def score_table(systems: Mapping[str, pl.DataFrame], *, seed: int = 0) -> pl.DataFrame:
    """One row a system, group of tasks and metric, with 95 % bootstrap intervals over tasks (`SCORE_SCHEMA`).

    Question answering: exact match and F1. ALFWorld: share of games won. WebShop: `score`, 100 times the mean
    reward, and `success`, the share of tasks with the full reward. Groups are all tasks, then those of each
    `task_type`. `failed` counts rollouts that ended in an error; they score 0.
    """
    rows = []
    for system, frame in systems.items():
        frame = frame.with_columns(score=100 * pl.col("return"))
        types = sorted(frame["task_type"].drop_nulls().unique())
        for group in [ALL, *(types if len(types) > 1 else [])]:
            part = frame if group == ALL else frame.filter(pl.col("task_type") == group)
            failed = part["return"].null_count()
            for metric in _METRICS.get(frame["benchmark"][0], _ANSWERS):
                scale = 100 if metric == "score" else 1
                values = [value / scale for value in task_values(system, part, metric).values()]
                mean = mean_interval(values, seed=seed)
                interval = (scale * number for number in (mean.value, mean.low, mean.high))
                rows.append((system, group, metric, *interval, mean.n, failed))
    return pl.DataFrame(rows, schema=SCORE_SCHEMA, orient="row")
