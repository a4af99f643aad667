"""Tables that compare systems, computed from their episodes alone.

The model: `systems` maps a system's name to its episodes on the test tasks (columns of the Episode Parquet,
plus an optional `run_seed` that tells trainings apart). Values are averaged within a task before anything
else. Known names are the keys of `LABELS`; any may be absent, and other names are shown as they are.
`oracle` holds a forced episode for every task and talent; `majority` is derived from it.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from talentrl.benchmarks.taskset import TaskSet
from talentrl.errors import InputError
from talentrl.evaluation.arms import NO_TALENT, majority_talent, routing_correct
from talentrl.evaluation.statistics import Comparison, Estimate, compare_paired, mean_interval

LABELS = {
    "zero_shot": "Zero-shot",
    "flat": "Flat retrieval, no talent",
    "tag_only": "Talent's name alone",
    "strategy_only": "Strategy, flat retrieval",
    "skills_only": "Talent's skills, no strategy",
    "random": "Random talent",
    "sft": "SFT",
    "rl": "SFT + RL",
    "majority": "Majority talent",
    "oracle": "Oracle talent",
}
PAIRS = (
    ("sft", "zero_shot"),
    ("rl", "sft"),
    ("rl", "flat"),
    ("rl", "random"),
    ("rl", "majority"),
    ("oracle", "rl"),
)
_ROUTING_PAIRS = (("sft", "zero_shot"), ("rl", "sft"))
_COLUMNS = (
    *("episode_id", "task_id", "intervention", "talent", "return", "f1", "routing_valid"),
    *("invalid_actions", "sampled_tokens", "seconds"),
)
Systems = Mapping[str, pl.DataFrame]
_RETURNS = {"alfworld": "success", "webshop": "reward"}


def return_name(tasks: pl.DataFrame) -> str:
    """What the return of these tasks (`TASK_SCHEMA`) is called."""
    return _RETURNS.get(tasks["benchmark"][0], "exact match") if tasks.height else "return"


def prepare(systems: Systems) -> dict[str, pl.DataFrame]:
    """Check the frames, add `run_seed` where absent, derive `majority`, put them in reading order.

    Raises:
        InputError: a frame lacks a column or has no episode.
    """
    checked = {}
    for name, frame in systems.items():
        if missing := [column for column in _COLUMNS if column not in frame.columns]:
            raise InputError(f"episodes of system {name!r}: columns {missing} are missing")
        if frame.is_empty():
            raise InputError(f"episodes of system {name!r}: found none, expected at least one")
        checked[name] = frame if "run_seed" in frame.columns else frame.with_columns(run_seed=pl.lit(0))
    if "oracle" in checked and (talent := majority_talent(checked["oracle"])) is not None:
        checked.setdefault("majority", checked["oracle"].filter(pl.col("talent") == talent))
    order = {name: place for place, name in enumerate(LABELS)}
    return dict(sorted(checked.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def system_label(name: str, frame: pl.DataFrame) -> str:
    """A system's name for people; says what is known only in hindsight."""
    if name == "majority":
        return f"{LABELS[name]}: {frame['talent'][0]} (chosen in hindsight)"
    if name == "oracle":
        return f"{LABELS[name]} (best arm in hindsight)"
    return LABELS.get(name, name)


def task_values(name: str, frame: pl.DataFrame, metric: str) -> dict[str, float]:
    """Task id -> mean of `metric`; for `oracle` the best arm's, for each training seed on its own."""
    value = pl.col(metric).fill_null(0.0)
    if name == "oracle":
        arms = frame.group_by("task_id", "run_seed", "talent").agg(value.mean())
        frame = arms.group_by("task_id", "run_seed").agg(pl.col(metric).max())
    means = frame.group_by("task_id").agg(value.mean()).sort("task_id")
    return dict(means.select("task_id", metric).iter_rows())


def comparison_table(systems: Systems, *, seed: int = 0) -> pl.DataFrame:
    """One row a system: scores with 95% intervals over tasks, routing, failures and costs.

    Returns:
        Columns `system`, `label`, `tasks`, `seeds`; `return`, `f1` and `routing_accuracy`, each with
        `_low` and `_high`; `routing_tasks` and `tied_tasks` (tasks with and without a best arm);
        `routing_valid_rate`; `invalid_action_rate` (share of episodes with an invalid action);
        `failed_episodes`; `sampled_tokens` and `seconds` a task (for `oracle` those of all its arms).
        A figure that does not apply to a system is null.

    Raises:
        InputError: as `prepare`.
    """
    frames = prepare(systems)
    rows = [_comparison_row(name, frame, frames.get("oracle"), seed) for name, frame in frames.items()]
    return pl.DataFrame(rows, infer_schema_length=None)


def difference_table(systems: Systems, *, seed: int = 0) -> pl.DataFrame:
    """Paired differences of the named pairs: return for all, routing accuracy for the trained steps.

    Returns:
        Columns `metric`, `first`, `second`, `first_mean`, `second_mean`, `difference`, `low`, `high`,
        `p_value`, `test`, `tasks`; a pair with an absent system has no row.

    Raises:
        InputError: two compared systems differ in tasks, or as `prepare`.
    """
    frames = prepare(systems)
    rows = []
    for first, second in PAIRS:
        if first in frames and second in frames:
            values = [task_values(name, frames[name], "return") for name in (first, second)]
            rows.append(_difference_row("return", (first, second), values, seed))
    for first, second in _ROUTING_PAIRS if "oracle" in frames else ():
        if first in frames and second in frames:
            values = [routing_correct(frames[name], frames["oracle"]) for name in (first, second)]
            shared = values[0].keys() & values[1].keys()  # a task may be tied in one seed and not in another
            if shared:
                values = [{task: right[task] for task in sorted(shared)} for right in values]
                rows.append(_difference_row("routing_accuracy", (first, second), values, seed))
    text, number = dict.fromkeys(("metric", "first", "second"), pl.String), pl.Float64
    numbers = dict.fromkeys(("first_mean", "second_mean", "difference", "low", "high", "p_value"), number)
    return pl.DataFrame(rows, schema={**text, **numbers, "test": pl.String, "tasks": pl.Int64})


def summary_metrics(systems: Systems) -> dict[str, Any]:
    """Both tables as nested mappings, in which `dvc metrics diff` finds every figure (in a list it finds none).

    Returns:
        `systems`: a row of `comparison_table` by system; `differences`: a row of `difference_table` by metric and
        pair, such as `differences.return.rl-sft`.

    Raises:
        InputError: as `difference_table`.
    """
    differences: dict[str, dict[str, Any]] = {}
    for row in difference_table(systems).to_dicts():
        differences.setdefault(row.pop("metric"), {})[f"{row.pop('first')}-{row.pop('second')}"] = row
    return {
        "systems": {row.pop("system"): row for row in comparison_table(systems).to_dicts()},
        "differences": differences,
    }


def talent_use(systems: Systems) -> pl.DataFrame:
    """Share of a system's episodes that ran under each talent: columns `system`, `talent`, `share`.

    Systems that choose no talent (`flat`) or run all (`oracle`, `majority`) are left out; a routing turn
    that named no talent counts as `none`.
    """
    rows = []
    for name, frame in prepare(systems).items():
        if name in ("oracle", "majority") or not _chooses(frame):
            continue
        counts = frame.group_by(pl.col("talent").fill_null(NO_TALENT)).len().sort("talent")
        rows += [(name, talent, count / frame.height) for talent, count in counts.iter_rows()]
    return pl.DataFrame(rows, schema={"system": pl.String, "talent": pl.String, "share": pl.Float64}, orient="row")


def task_groups(tasks: pl.DataFrame) -> pl.DataFrame:
    """Groups of tasks (`TASK_SCHEMA`): columns `task_id`, `group`; empty when nothing tells tasks apart.

    A task's type is a group; in a set of several benchmarks, each benchmark is one too, and types are told apart by it.
    `held_out` in the payload (was the phrasing kept out of training?) gives another.
    """
    several = tasks["benchmark"].n_unique() > 1
    rows = []
    for task in TaskSet(tasks):
        if several:
            rows.append((task.task_id, task.benchmark))
        if task.task_type is not None:
            rows.append((task.task_id, f"{task.benchmark}: {task.task_type}" if several else task.task_type))
        if isinstance(held_out := task.payload.get("held_out"), bool):
            rows.append((task.task_id, "(phrasing held out)" if held_out else "(phrasing seen in training)"))
    return pl.DataFrame(rows, schema={"task_id": pl.String, "group": pl.String}, orient="row")


def group_table(systems: Systems, tasks: pl.DataFrame, *, seed: int = 0) -> pl.DataFrame:
    """Return by task group: columns `group`, `system`, `return`, `low`, `high`, `tasks`."""
    members = {str(name): set(part["task_id"]) for (name,), part in task_groups(tasks).group_by("group")}
    rows = []
    for name, frame in prepare(systems).items():
        values = task_values(name, frame, "return")
        for group in sorted(members, key=lambda name: (name.startswith("("), name)):
            if inside := [value for task, value in values.items() if task in members[group]]:
                mean = mean_interval(inside, seed=seed)
                rows.append((group, name, mean.value, mean.low, mean.high, mean.n))
    text, numbers = ("group", "system"), ("return", "low", "high")
    schema = {**dict.fromkeys(text, pl.String), **dict.fromkeys(numbers, pl.Float64), "tasks": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _chooses(frame: pl.DataFrame) -> bool:
    return bool(frame["intervention"].is_in(["routed", "forced"]).any())


def _comparison_row(name: str, frame: pl.DataFrame, oracle: pl.DataFrame | None, seed: int) -> dict[str, object]:
    row: dict[str, object] = {"system": name, "label": system_label(name, frame)}
    row |= {"tasks": frame["task_id"].n_unique(), "seeds": frame["run_seed"].n_unique()}
    for metric in ("return", "f1"):
        known = frame[metric].null_count() < frame.height  # F1 is known of answers only
        values = list(task_values(name, frame, metric).values())
        row |= _interval(metric, mean_interval(values, seed=seed) if known or metric == "return" else None)
    right: dict[str, float] | None = None
    if oracle is not None and name != "oracle" and _chooses(frame):
        right = routing_correct(frame, oracle)
    row |= _interval("routing_accuracy", mean_interval(list(right.values()), seed=seed) if right else None)
    routed = frame.filter(pl.col("intervention") == "routed")
    row |= {
        "routing_tasks": None if right is None else len(right),
        "tied_tasks": None if right is None else frame["task_id"].n_unique() - len(right),
        "routing_valid_rate": None if routed.is_empty() else routed["routing_valid"].mean(),
        "invalid_action_rate": (frame["invalid_actions"].fill_null(0) > 0).mean(),
        "failed_episodes": frame["return"].null_count(),
    }
    # Oracle's choice is known only after all arms of a task have run, so it costs all of them.
    runs = frame.height / frame.n_unique(["task_id", "run_seed"]) if name == "oracle" else 1.0
    return row | {metric: frame[metric].mean() * runs for metric in ("sampled_tokens", "seconds")}  # type: ignore[operator]


def _difference_row(
    metric: str, names: tuple[str, str], values: list[dict[str, float]], seed: int
) -> dict[str, object]:
    result: Comparison = compare_paired(values[0], values[1], names, seed=seed)
    means = [sum(part.values()) / len(part) for part in values]
    return {
        **{"metric": metric, "first": names[0], "second": names[1]},
        **{"first_mean": means[0], "second_mean": means[1], "difference": result.difference.value},
        **{"low": result.difference.low, "high": result.difference.high},
        **{"p_value": result.p_value, "test": result.test, "tasks": result.difference.n},
    }


def _interval(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    if estimate is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
