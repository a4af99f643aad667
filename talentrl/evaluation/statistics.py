"""Intervals and tests over tasks.

The model: the task is the unit of evidence. A system is a mapping task id -> value in [0, 1], where rollouts
and training seeds of one task were averaged beforehand; tasks are taken as independent draws. Two systems
are compared on the same tasks only, through the differences within each task. Intervals therefore speak of
other tasks of the same kind, given the checkpoints at hand; they do not cover the spread between trainings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from talentrl.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 10_000
_BATCH = 1_000  # resamples held in memory at once
_ZERO = 1e-12  # differences of averaged outcomes below this are rounding


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` tasks with its interval `low`..`high` (NaN when one task alone gives none)."""

    value: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval; False when there is no interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Comparison:
    """The paired difference `first - second`, and the two-sided p value of the named exact test."""

    difference: Estimate
    p_value: float
    test: str


def mean_interval(values: Sequence[float] | np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """Mean of one value in [0, 1] a task, with a bootstrap percentile interval.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13.

    Where every value is 0 or every value is 1 the bootstrap has no spread and would claim certainty; then
    the exact binomial interval is given (Clopper & Pearson 1934).

    Raises:
        InputError: there is no value.
    """
    sample = _sample(values)
    if sample.size > 1 and np.all(sample == sample[0]) and sample[0] in (0.0, 1.0):
        exact = stats.binomtest(int(sample.sum()), sample.size).proportion_ci(CONFIDENCE, method="exact")
        return Estimate(float(sample[0]), float(exact.low), float(exact.high), sample.size)
    return _bootstrap(sample, seed, resamples)


def mean_difference_interval(
    differences: Sequence[float] | np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Mean of one difference a task, with a bootstrap percentile interval: tasks are resampled whole.

    Raises:
        InputError: there is no difference.
    """
    return _bootstrap(_sample(differences), seed, resamples)


def exact_paired_test(
    differences: Sequence[float] | np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, str]:
    """Two-sided p value of "each difference is as likely as its negative", and the name of the test.

    Differences in {-1, 0, 1} (binary outcomes): McNemar's exact test, a binomial test on the discordant
    pairs (McNemar 1947). Otherwise Fisher's sign-flip test: all 2^n sign patterns of the n non-zero
    differences when they number at most `resamples`, else that many random ones (Phipson & Smyth 2010
    count the observed pattern, so p is never 0).
    """
    sample = _sample(differences)
    sample = sample[np.abs(sample) > _ZERO]  # a difference of 0 has no sign to flip
    if np.all(np.abs(sample) == 1.0):
        if sample.size == 0:
            return 1.0, "McNemar exact"
        wins = int((sample > 0).sum())
        return float(stats.binomtest(wins, sample.size, 0.5).pvalue), "McNemar exact"
    if sample.size == 1:  # scipy wants two or more; both sign patterns are as extreme
        return 1.0, "sign-flip exact"
    # A sum of signs is symmetric, so the two-sided p of `permutation_test` is the usual |sum| one.
    result = stats.permutation_test(
        (sample,),
        lambda x, axis: np.sum(x, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=_BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue), "sign-flip exact" if 2**sample.size <= resamples else "sign-flip Monte Carlo"


def paired_differences(
    first: Mapping[str, float], second: Mapping[str, float], names: tuple[str, str] = ("first", "second")
) -> np.ndarray:
    """`first - second` for every task, float64 (n,), in order of task id.

    Raises:
        InputError: the two share no task, or one has tasks that the other lacks.
    """
    if not first.keys() & second.keys():
        raise InputError(f"systems {names[0]!r} and {names[1]!r} share no task: a paired comparison needs the same")
    for name, extra in zip(names, (first.keys() - second.keys(), second.keys() - first.keys()), strict=True):
        if extra:
            raise InputError(
                f"systems {names[0]!r} and {names[1]!r} differ in tasks: {len(extra)} only in {name!r}, "
                f"such as {min(extra)!r}; expected the same tasks"
            )
    return np.array([first[task] - second[task] for task in sorted(first)])


def compare_paired(
    first: Mapping[str, float],
    second: Mapping[str, float],
    names: tuple[str, str] = ("first", "second"),
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Comparison:
    """Mean difference `first - second` over shared tasks, its bootstrap interval and an exact paired test.

    Args:
        first: task id -> value, already averaged over the rollouts and seeds of the task.
        second: the same for the other system.
        names: how an error names the two systems.
        seed: of the resampling; equal inputs and seed give equal results.
        resamples: bootstrap resamples, and the most sign patterns that the test looks at.

    Raises:
        InputError: as `paired_differences`.
    """
    differences = paired_differences(first, second, names)
    p_value, test = exact_paired_test(differences, seed=seed, resamples=resamples)
    return Comparison(mean_difference_interval(differences, seed=seed, resamples=resamples), p_value, test)


def _sample(values: Sequence[float] | np.ndarray) -> np.ndarray:
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise InputError("no task to compute an interval from: found 0 values, expected at least 1")
    if not np.all(np.isfinite(sample)):
        raise InputError("a task's value is not a finite number: expected one number a task")
    return sample


def _bootstrap(sample: np.ndarray, seed: int, resamples: int) -> Estimate:
    value = float(sample.mean())
    if sample.size == 1:
        return Estimate(value, float("nan"), float("nan"), 1)
    interval = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=resamples,
        batch=_BATCH,
        vectorized=True,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high), sample.size)
