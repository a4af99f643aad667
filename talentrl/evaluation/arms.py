"""What the arms of one task say about talents: the best arm, and how routing compares with it.

The model: the `oracle` system holds a forced episode for every task and talent. The best arms of a task are
the talents with the highest return there; a task whose arms are all equal has no best arm and cannot tell
good routing from bad, so it is left out of every routing figure. A failed episode counts as return 0.
"""

import polars as pl

from talentrl.evaluation.statistics import mean_difference_interval

NO_TALENT = "none"
_TOLERANCE = 1e-9  # returns closer than this are equal: averages of the same outcomes may differ in rounding
_STEP_BINS = 12


def arm_values(oracle: pl.DataFrame, metric: str, keys: list[str]) -> pl.DataFrame:
    """Mean of `metric` for every arm: columns `keys`, `talent`, `value`."""
    forced = oracle.filter(pl.col("talent").is_not_null())
    return forced.group_by([*keys, "talent"], maintain_order=True).agg(
        pl.col(metric).fill_null(0.0).mean().alias("value")
    )


def best_arms(oracle: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """The best talents of each task: columns `keys`, `talent`; a task whose arms are equal has none."""
    high, low = pl.col("value").max().over(keys), pl.col("value").min().over(keys)
    return (
        arm_values(oracle, "return", keys)
        .filter(high - low > _TOLERANCE, pl.col("value") >= high - _TOLERANCE)
        .select(*keys, "talent")
        .sort(*keys, "talent")
    )


def matching_keys(episodes: pl.DataFrame, oracle: pl.DataFrame) -> list[str]:
    """Columns that tie an episode to its arms: by training seed too where the arms were run for each seed."""
    matched = set(episodes["run_seed"].unique()) <= set(oracle["run_seed"].unique())
    return ["task_id", "run_seed"] if matched else ["task_id"]


def routing_correct(episodes: pl.DataFrame, oracle: pl.DataFrame) -> dict[str, float]:
    """For every task with a best arm, the share of its episodes whose talent is one of the best arms."""
    keys = matching_keys(episodes, oracle)
    best = best_arms(oracle, keys).group_by(keys).agg(pl.col("talent").alias("best"))
    judged = (
        episodes.join(best, on=keys)
        .with_columns(pl.col("best").list.contains(pl.col("talent")).fill_null(False).alias("correct"))
        .group_by("task_id")
        .agg(pl.col("correct").cast(pl.Float64).mean())
        .sort("task_id")
    )
    return dict(judged.iter_rows())


def routing_confusion(episodes: pl.DataFrame, oracle: pl.DataFrame) -> pl.DataFrame:
    """Chosen talent against best talent: columns `chosen`, `best`, `tasks`.

    Every task with a best arm weighs 1 in all, shared equally among its episodes and its best arms.
    """
    keys = matching_keys(episodes, oracle)
    best = best_arms(oracle, keys).rename({"talent": "best"})
    episode = pl.struct("run_seed", "episode_id")  # ids may repeat between training seeds
    weight = 1 / (pl.len().over(episode) * episode.n_unique().over("task_id"))
    return (
        episodes.select("task_id", "run_seed", "episode_id", chosen=pl.col("talent").fill_null(NO_TALENT))
        .join(best, on=keys)
        .with_columns(tasks=weight)
        .group_by("chosen", "best")
        .agg(pl.col("tasks").sum())
        .sort("chosen", "best")
    )


def majority_talent(oracle: pl.DataFrame) -> str | None:
    """The talent with the highest mean return over all tasks, which is known in hindsight only.

    Only talents with an arm on every task count; ties go to the first by name; None when there is none.
    """
    arms = arm_values(oracle, "return", ["task_id"])
    ranked = (
        arms.group_by("talent")
        .agg(pl.len().alias("tasks"), pl.col("value").mean().round(9))
        .filter(pl.col("tasks") == arms["task_id"].n_unique())
        .sort("value", "talent", descending=[True, False])
    )
    return None if ranked.is_empty() else str(ranked["talent"][0])


def contrast_by_talent(training: pl.DataFrame, *, seed: int = 0) -> pl.DataFrame:
    """Contrast of each talent in training: an arm's mean return minus the mean of its task's other arms.

    Args:
        training: episodes with a `step` column; the arms of one task in one step are compared.
        seed: of the bootstrap.

    Returns:
        Columns `arm` (talent, or the intervention where it is not `routed` or `forced`), `contrast`, `low`,
        `high`, `better` and `worse` (share of tasks with a positive and a negative contrast), `tasks`;
        contrasts are averaged within a task first, and the interval is over tasks. A task with one arm
        has no contrast. Sorted by contrast, highest first.
    """
    scope = _scope(training)
    named = pl.col("intervention").is_in(["routed", "forced"])
    arm = pl.when(named).then(pl.col("talent").fill_null(NO_TALENT)).otherwise(pl.col("intervention"))
    arms = training.group_by([*scope, arm.alias("arm")]).agg(pl.col("return").fill_null(0.0).mean().alias("value"))
    count, total = pl.len().over(scope), pl.col("value").sum().over(scope)
    contrasts = (
        arms.filter(count > 1)
        .with_columns(contrast=pl.col("value") - (total - pl.col("value")) / (count - 1))
        .group_by("arm", "task_id")
        .agg(pl.col("contrast").mean())
        .sort("arm", "task_id")
    )
    rows = []
    for (name,), group in contrasts.group_by("arm", maintain_order=True):
        values = group["contrast"]
        estimate = mean_difference_interval(values.to_numpy(), seed=seed)
        better, worse = (values > _TOLERANCE).mean(), (values < -_TOLERANCE).mean()
        rows.append((name, estimate.value, estimate.low, estimate.high, better, worse, estimate.n))
    numbers = ("contrast", "low", "high", "better", "worse")
    columns = {"arm": pl.String, **dict.fromkeys(numbers, pl.Float64), "tasks": pl.Int64}
    return pl.DataFrame(rows, schema=columns, orient="row").sort("contrast", "arm", descending=[True, False])


def talent_use_by_step(training: pl.DataFrame) -> pl.DataFrame:
    """Talent use over training: columns `steps` (a label such as `1–4`), `talent`, `share`; empty if unknown.

    `share` is the policy's probability of a talent (`routing_probability`), averaged over the (step, task)
    pairs of at most twelve equal stretches of training. A talent that had no arm on a task adds nothing
    there, so the shares of a stretch sum to at most 1.
    """
    probability = pl.col("routing_probability")
    arms = training.filter(pl.col("talent").is_not_null(), probability.is_not_null(), probability.is_not_nan())
    if arms.is_empty():
        return pl.DataFrame(schema={"steps": pl.String, "talent": pl.String, "share": pl.Float64})
    scope, steps = _scope(training), arms["step"].n_unique()
    bins = min(_STEP_BINS, steps)
    first, last = pl.col("step").min().over("bin"), pl.col("step").max().over("bin")
    label = pl.when(first == last).then(pl.format("{}", first)).otherwise(pl.format("{}–{}", first, last))
    return (
        arms.with_columns(bin=(pl.col("step").rank("dense").cast(pl.Int64) - 1) * bins // steps)
        .with_columns(steps=label, pairs=pl.struct(scope).n_unique().over("bin"))
        .group_by("bin", "steps", "pairs", *scope, "talent")
        .agg(probability.mean())
        .group_by("bin", "steps", "talent")
        .agg((probability.sum() / pl.col("pairs").first()).alias("share"))
        .sort("bin", "talent")
        .select("steps", "talent", "share")
    )


def _scope(training: pl.DataFrame) -> list[str]:
    """Columns within which arms are matched: one task in one step of one training."""
    return [*(["run_seed"] if "run_seed" in training.columns else []), "step", "task_id"]
