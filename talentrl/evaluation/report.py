"""The report: one HTML file that shows, with intervals, whether routing training helped.

The model: everything shown is computed here from episodes, tasks and training histories; the template only
lays it out. The page loads nothing, so it reads the same without a network, and equal inputs give equal
bytes. A part whose input is absent says so in its place.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from talentrl.evaluation import charts, summary
from talentrl.evaluation.arms import NO_TALENT, contrast_by_talent, routing_confusion, talent_use_by_step
from talentrl.evaluation.charts import Dot
from talentrl.evaluation.examples import pick_examples
from talentrl.evaluation.statistics import CONFIDENCE, RESAMPLES
from talentrl.files import write_text

SEED = 0  # of every bootstrap and permutation in the report
_SIGNIFICANCE = 0.05
_MOST_CURVES = 6
# Which training metrics are worth a curve, most telling first; a name matches by containing the word.
_CURVES = ("return", "reward", "loss", "accuracy", "contrast", "entropy", "invalid", "kl")
_NOT_CURVES = ("step", "run_seed", "epoch")


def write_report(
    output: Path,
    *,
    evaluations: dict[str, pl.DataFrame],
    tasks: pl.DataFrame,
    histories: dict[str, pl.DataFrame],
    rl_episodes: pl.DataFrame | None,
    provenance: dict[str, str],
) -> None:
    """Write the report to `output`, whole or not at all.

    Args:
        output: the HTML file.
        evaluations: system name -> episodes on the test tasks (names and columns as in `summary`).
        tasks: the task frame; payloads may name `family` and `held_out`.
        histories: `sft` and `rl` -> metrics by `step`, one column a metric, optionally `run_seed`.
        rl_episodes: the arms run in training, with a `step` column; None when there are none.
        provenance: what the figures rest on (digests, seeds, versions), shown as it is.

    Raises:
        InputError: episodes lack a column, a system has none, or two compared systems differ in tasks.
    """
    systems = summary.prepare(evaluations)
    returns = summary.return_name(tasks)
    labels = {name: summary.system_label(name, frame) for name, frame in systems.items()}
    differences = summary.difference_table(systems, seed=SEED)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "signed": _signed, "p_value": _p_value}
    page = environment.get_template("report.html.j2").render(
        labels=labels,
        headline=headline(differences, systems, returns),
        returns=returns,
        confidence=f"{CONFIDENCE:.0%}",
        resamples=f"{RESAMPLES:,}",
        metrics={"return": returns.capitalize(), "routing_accuracy": "Routing accuracy"},
        **_comparison(systems, returns),
        **_differences(differences, returns),
        curves={stage: _curves(stage, histories.get(stage)) for stage in ("sft", "rl")},
        **_training(rl_episodes),
        **_routing(systems, labels),
        groups=_groups(systems, tasks),
        examples=pick_examples(systems),
        provenance=provenance,
    )
    write_text(output, page)


def headline(differences: pl.DataFrame, systems: Iterable[str], returns: str) -> list[str]:
    """Whether RL, which trains routing, helped: the verdict, its evidence, then what routing itself did."""
    found = {(row["metric"], row["first"], row["second"]): row for row in differences.iter_rows(named=True)}
    main = found.get(("return", "rl", "sft"))
    if main is None:
        names = ", ".join(systems) or "none"
        return [
            "This report cannot say whether routing training helped: "
            f"that takes evaluations of sft and rl, and it has {names}."
        ]
    verdict = f"RL {'raised' if main['difference'] > 0 else 'lowered'} {returns}"
    if not _excludes_zero(main):
        verdict = f"RL made no difference to {returns} that this test can show"
    elif main["p_value"] >= _SIGNIFICANCE:
        verdict = f"Interval and exact test disagree on whether RL changed {returns}"
    routing = found.get(("routing_accuracy", "rl", "sft"))
    alone = "Without oracle arms it cannot be said how often routing chose the best talent."
    if routing:
        where = f"{_interval(routing)} on the {routing['tasks']} tasks that have one"
        alone = f"Routing accuracy against the best arm: {where}; {_evidence(routing)}"
    return [
        f"{verdict}: {_interval(main)} on {main['tasks']} tasks.",
        f"{returns.capitalize()}: {_evidence(main)}",
        f"RL trains routing and execution together. {alone}",
    ]


def _interval(row: Mapping[str, Any]) -> str:
    difference = _signed(row["difference"])
    if not math.isfinite(row["low"]):
        return f"{difference} (no interval from one task, so it does not exclude 0)"
    verb = "excludes" if _excludes_zero(row) else "does not exclude"
    return f"{difference} ({CONFIDENCE:.0%} interval {_signed(row['low'])} to {_signed(row['high'])}, {verb} 0)"


def _evidence(row: Mapping[str, Any]) -> str:
    means = f"{_number(row['second_mean'])} after SFT, {_number(row['first_mean'])} after RL"
    return f"{means} (paired by task; {row['test']} test p {_p_value(row['p_value'])})."


def _excludes_zero(row: Mapping[str, Any]) -> bool:
    return bool(row["low"] > 0 or row["high"] < 0)


def _comparison(systems: dict[str, pl.DataFrame], returns: str) -> dict[str, Any]:
    rows = summary.comparison_table(systems, seed=SEED).to_dicts()
    fields = ("return", "return_low", "return_high")
    dots = [Dot(row["label"].replace(" (", "\n("), *(row[field] for field in fields)) for row in rows]
    tied = next((row["tied_tasks"] for row in rows if row["tied_tasks"] is not None), None)
    chart = charts.interval_chart("scores", dots, returns) if dots else ""
    return {"comparison": rows, "comparison_chart": Markup(chart), "tied_tasks": tied}


def _differences(table: pl.DataFrame, returns: str) -> dict[str, Any]:
    rows = table.to_dicts()
    for row in rows:
        names = (summary.LABELS.get(row[side], row[side]) for side in ("first", "second"))
        row["label"] = " − ".join(names)
        row["excludes_zero"] = _excludes_zero(row)
    dots = [Dot(r["label"], r["difference"], r["low"], r["high"]) for r in rows if r["metric"] == "return"]
    drawn = charts.interval_chart("differences", dots, f"difference in {returns}", zero_line=True) if dots else ""
    return {"differences": rows, "differences_chart": Markup(drawn)}


def _curves(stage: str, history: pl.DataFrame | None) -> list[Markup]:
    if history is None or history.is_empty() or "step" not in history.columns:
        return []
    numeric = [name for name in history.columns if name not in _NOT_CURVES and history[name].dtype.is_numeric()]
    numeric = [name for name in numeric if history[name].drop_nulls().is_finite().any()]
    chosen = sorted((name for name in numeric if _curve_rank(name) < len(_CURVES)), key=_curve_rank)
    drawn = []
    for number, metric in enumerate((chosen or numeric)[:_MOST_CURVES]):
        points = history.filter(pl.col(metric).cast(pl.Float64).is_finite()).sort("step")
        seeds = points.partition_by("run_seed", maintain_order=True) if "run_seed" in points.columns else [points]
        lines = [(part["step"].to_list(), part[metric].to_list()) for part in seeds]
        drawn.append(Markup(charts.line_chart(f"{stage}-{number}", metric, lines)))
    return drawn


def _curve_rank(name: str) -> int:
    return next((rank for rank, word in enumerate(_CURVES) if word in name.lower()), len(_CURVES))


def _training(episodes: pl.DataFrame | None) -> dict[str, Any]:
    """What the arms of training say: contrast by talent, and talent use over the steps."""
    if episodes is None or episodes.is_empty():
        return {"contrasts": [], "contrast_chart": "", "use_chart": ""}
    rows = contrast_by_talent(episodes, seed=SEED).to_dicts()
    dots = [Dot(row["arm"], row["contrast"], row["low"], row["high"]) for row in rows]
    contrast = charts.interval_chart("contrast", dots, "contrast in return", zero_line=True) if dots else ""
    use = talent_use_by_step(episodes)
    drawn = ""
    if not use.is_empty():
        talents, steps = sorted(use["talent"].unique()), use["steps"].unique(maintain_order=True).to_list()
        cells = _matrix(use.select("talent", "steps", "share"), talents, steps)
        drawn = charts.heat_chart("use-steps", talents, steps, cells, axes_names=("talent", "training steps"))
    return {"contrasts": rows, "contrast_chart": Markup(contrast), "use_chart": Markup(drawn)}


def _routing(systems: dict[str, pl.DataFrame], labels: dict[str, str]) -> dict[str, Any]:
    """Talent use at test, and chosen against best talent for every system that routes."""
    use = summary.talent_use(systems)
    talents, names = sorted(use["talent"].unique()), use["system"].unique(maintain_order=True).to_list()
    shares = _matrix(use.select("talent", "system", "share"), talents, names)
    routing = [name for name in names if "routed" in systems[name]["intervention"]]
    confusions = []
    for name in routing if "oracle" in systems else ():
        table = routing_confusion(systems[name], systems["oracle"])
        if not table.is_empty():
            confusions.append((labels[name], Markup(_confusion_chart(name, table))))
    rows = list(zip(talents, shares, strict=True))
    return {"use_systems": names, "use_rows": rows, "confusions": confusions}


def _confusion_chart(name: str, table: pl.DataFrame) -> str:
    # The same talents on both axes put right choices on the diagonal; "none" is a choice only.
    best = sorted({*table["chosen"], *table["best"]} - {NO_TALENT})
    chosen = best + [NO_TALENT] * (NO_TALENT in table["chosen"])
    cells = _matrix(table, chosen, best)
    axes_names = ("chosen talent", "best talent")
    return charts.heat_chart(f"confusion-{name}", chosen, best, cells, axes_names=axes_names, number="{:.1f}")


def _groups(systems: dict[str, pl.DataFrame], tasks: pl.DataFrame) -> list[tuple[str, dict[str, Any]]]:
    """(group, {system: row}) in the order of `group_table`."""
    table: dict[str, dict[str, Any]] = {}
    for row in summary.group_table(systems, tasks, seed=SEED).iter_rows(named=True):
        table.setdefault(row["group"], {})[row["system"]] = row
    return list(table.items())


def _matrix(table: pl.DataFrame, rows: Sequence[str], columns: Sequence[str]) -> list[list[float]]:
    """Cells of a (row, column, value) frame; 0 where there is none."""
    values = {(row, column): value for row, column, value in table.iter_rows()}
    return [[values.get((row, column), 0.0) for column in columns] for row in rows]


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def _signed(value: float | None, digits: int = 3) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:+.{digits}f}".replace("-", "−")


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
