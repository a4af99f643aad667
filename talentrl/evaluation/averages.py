"""Scores of several benchmarks on one line: macro (each benchmark counts alike) and micro (each task does).

The task is the unit, as in `talentrl.evaluation.statistics`: its rollouts are averaged first, a failed one counts 0.
Task ids are told apart by benchmark, since two benchmarks may number their items alike.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from talentrl.errors import InputError
from talentrl.evaluation.statistics import CONFIDENCE, RESAMPLES, Estimate, mean_interval

MACRO, MICRO = "macro", "micro"


def average_table(episodes: pl.DataFrame, metric: str = "exact_match", *, seed: int = 0) -> pl.DataFrame:
    """One row a benchmark in alphabetical order, then `macro` and `micro`, of one system's episodes.

    Returns:
        Columns `benchmark`, `value`, `low`, `high` (95% interval over tasks; NaN where one task gives none) and
        `tasks`.

    Raises:
        InputError: there is no episode, or a column is missing.
    """
    if missing := [name for name in ("benchmark", "task_id", metric) if name not in episodes.columns]:
        raise InputError(f"episodes: columns {missing} are missing")
    if episodes.is_empty():
        raise InputError("episodes: found none, expected at least one")
    tasks = episodes.group_by("benchmark", "task_id").agg(pl.col(metric).fill_null(0.0).mean())
    values = {
        str(name): part.sort("task_id")[metric].to_numpy()
        for (name,), part in sorted(tasks.group_by("benchmark"), key=lambda group: str(group[0]))
    }
    rows = [(name, mean_interval(sample, seed=seed)) for name, sample in values.items()]
    rows += [
        (MACRO, macro_interval(list(values.values()), seed=seed)),
        (MICRO, mean_interval(np.concatenate(list(values.values())), seed=seed)),
    ]
    return pl.DataFrame(
        [(name, mean.value, mean.low, mean.high, mean.n) for name, mean in rows],
        schema={"benchmark": pl.String, **dict.fromkeys(("value", "low", "high"), pl.Float64), "tasks": pl.Int64},
        orient="row",
    )


def macro_interval(samples: Sequence[np.ndarray], *, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """The mean of the samples' means, with a bootstrap percentile interval: tasks are resampled within each sample.

    The benchmarks are taken as given, so the interval speaks of other tasks of these benchmarks, not of others.
    A sample that is all 0 or all 1 adds no spread; if all tasks have the same outcome, the interval is that of
    `mean_interval`, which does not claim certainty. `n` counts all tasks.
    """
    pooled = np.concatenate(samples)
    if pooled.size > 1 and np.all(pooled == pooled[0]):
        return mean_interval(pooled, seed=seed, resamples=resamples)
    value = float(np.mean([sample.mean() for sample in samples]))
    count = sum(sample.size for sample in samples)
    if min(sample.size for sample in samples) < 2:
        return Estimate(value, float("nan"), float("nan"), count)
    random = np.random.default_rng(seed)
    means = np.mean([_resampled_means(sample, random, resamples) for sample in samples], axis=0)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), count)


def _resampled_means(sample: np.ndarray, random: np.random.Generator, resamples: int) -> np.ndarray:
    """Means of `resamples` draws with replacement, by how often each distinct value is drawn: float64 (resamples,)."""
    distinct, counts = np.unique(sample, return_counts=True)
    drawn = random.multinomial(sample.size, counts / sample.size, size=resamples)
    means: np.ndarray = drawn @ distinct / sample.size
    return means
