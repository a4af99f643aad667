"""The table of a sweep, computed from what its finished rows left in their folders.

One line a row and system: the mean return with its interval, and the paired difference to the system `rl` of the
sweep's reference row on the same tasks. A row has finished when its `row.json` holds the settings that the sweep file
gives it now; other rows are shown as not run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import ValidationError

from talentrl import layout
from talentrl.config import Params, System
from talentrl.errors import InputError
from talentrl.evaluation.statistics import compare_paired, mean_interval
from talentrl.evaluation.summary import return_name, task_values
from talentrl.files import write_text
from talentrl.rollouts.episode import read_episodes
from talentrl.sweep import Row, Sweep

RECORD = "row.json"
"""In a row's folder: the settings it ran with, the commit, when it finished. Written last."""
_UNTRAINED: frozenset[System] = frozenset({"zero_shot", "sft"})  # the reinforcement stage did not make them
_TEXT, _COUNT, _NUMBER = pl.String(), pl.Int64(), pl.Float64()
TABLE_SCHEMA = pl.Schema(
    {
        **dict.fromkeys(["row", "system", "changes", "status"], _TEXT),
        **dict.fromkeys(["return", "low", "high", "difference", "difference_low", "difference_high"], _NUMBER),
        **dict.fromkeys(["p_value", "p_holm"], _NUMBER),
        **dict.fromkeys(["tasks", "seeds", "rollouts"], _COUNT),
        "rl_seconds": _NUMBER,
        "commit": _TEXT,
    }
)


def is_finished(folder: Path, row: Row) -> bool:
    """Whether `folder` holds the results of `row` with its settings of now, wherever they were computed.

    A key that came after the row ran counts with its default; a key that is gone makes other settings.
    """
    path = folder / RECORD
    if not path.is_file():
        return False
    try:
        found = Params.model_validate(_read_json(path)["params"])
    except ValidationError:
        return False
    return found.model_copy(update={"hardware": row.params.hardware}) == row.params


def ablation_table(sweep: Sweep, folder: Path) -> pl.DataFrame:
    """The table (`TABLE_SCHEMA`) of the rows in `folder`; what does not apply, or has not run, is null.

    `rollouts` are those of training, `rl_seconds` the online steps of reinforcement, both over all training seeds.
    `p_holm` are the p values adjusted for the number of lines compared (Holm 1979).

    Raises:
        InputError: a finished row's file is missing or broken, or two rows were evaluated on different tasks.
    """
    values: dict[tuple[str, str], dict[str, float]] = {}
    questions: dict[str, dict[str, str]] = {}
    lines: list[dict[str, Any]] = []
    for row in sweep.rows.values():
        place = folder / row.name
        finished = is_finished(place, row)
        for system in row.params.evaluate.systems:
            line: dict[str, Any] = dict.fromkeys(TABLE_SCHEMA)
            line |= {"row": row.name, "system": system, "changes": _settings(row.changes)}
            line |= {"status": "finished" if finished else "not run"}
            if finished:
                episodes = _episodes(place, row, system)
                values[row.name, system] = task_values(system, episodes, "return")
                questions[row.name] = dict(episodes.select("task_id", "instruction").iter_rows())
                line |= _figures(values[row.name, system]) | _costs(place, row, system)
            lines.append(line)
    reference = values.get((sweep.reference, "rl"))
    for line in lines:
        key = (line["row"], line["system"])
        if reference is not None and key in values and key != (sweep.reference, "rl"):
            names = ("/".join(key), f"{sweep.reference}/rl")
            result = compare_paired(values[key], reference, names)
            _check_questions(line["row"], questions[line["row"]], sweep.reference, questions[sweep.reference])
            line |= {"difference": result.difference.value, "p_value": result.p_value}
            line |= {"difference_low": result.difference.low, "difference_high": result.difference.high}
    compared = [line for line in lines if line["p_value"] is not None]
    for line, adjusted in zip(compared, holm([line["p_value"] for line in compared]), strict=True):
        line["p_holm"] = adjusted
    return pl.DataFrame(lines, schema=TABLE_SCHEMA)


def holm(p_values: Sequence[float]) -> list[float]:
    """P values adjusted for their number n: the k-th smallest times n − k + 1, not below the one before, at most 1.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = highest
    return adjusted


def write_tables(sweep: Sweep, folder: Path) -> str:
    """Write the table as `table.csv`, `table.json` and `table.md` in `folder`; return the Markdown."""
    table = ablation_table(sweep, folder)
    write_text(folder / "table.csv", table.write_csv())
    write_text(folder / "table.json", json.dumps(table.to_dicts(), indent=1) + "\n")
    markdown = ablation_markdown(table, sweep, folder)
    write_text(folder / "table.md", markdown)
    return markdown


def ablation_markdown(table: pl.DataFrame, sweep: Sweep, folder: Path) -> str:
    """The table for people, and a line on where it comes from."""
    finished = [row for row in sweep.rows.values() if is_finished(folder / row.name, row)]
    name = "return"
    if finished:
        name = return_name(_episodes(folder / finished[0].name, finished[0], finished[0].params.evaluate.systems[0]))
    head = ["row", "system", "settings", name, f"minus {sweep.reference}/rl", "p", "p (Holm)", "tasks", "rollouts"]
    lines = [f"| {' | '.join([*head, 'RL seconds'])} |", f"| --- | --- | --- |{' ---: |' * 7}"]
    for line in table.iter_rows(named=True):
        cells = [line["row"], line["system"], f"`{line['changes']}`" if line["changes"] else ""]
        if line["status"] == "finished":
            cells.append(_interval(line["return"], line["low"], line["high"], ""))
            cells.append(_interval(line["difference"], line["difference_low"], line["difference_high"], "+"))
            cells += [_number(line[key], ".3f") for key in ("p_value", "p_holm")]
            cells += [_number(line[key], ",.0f") for key in ("tasks", "rollouts", "rl_seconds")]
        else:
            cells += ["not run", *[""] * 6]
        lines.append(f"| {' | '.join(cells)} |")
    commits = ", ".join(sorted({f"`{commit}`" for commit in table["commit"].drop_nulls()})) or "none yet"
    seeds = ", ".join(sorted({str(seed) for row in finished for seed in row.params.seeds})) or "none yet"
    notes = (
        f"{len(finished)} of {len(sweep.rows)} rows have finished. Commits: {commits}. Training seeds: {seeds}. "
        "Brackets are 95 % intervals over tasks; differences are paired by task; p is two-sided, Holm's is adjusted "
        "for the number of lines compared. Rollouts and RL seconds are those of training, over all seeds."
    )
    return "\n".join([*lines, "", notes, ""])


def _episodes(place: Path, row: Row, system: System) -> pl.DataFrame:
    frames = [
        read_episodes(place / layout.EVALUATION / f"{system}-{seed}.parquet").with_columns(run_seed=pl.lit(seed))
        for seed in row.params.seeds
    ]
    return pl.concat(frames)


def _figures(values: dict[str, float]) -> dict[str, Any]:
    mean = mean_interval(list(values.values()))
    return {"return": mean.value, "low": mean.low, "high": mean.high, "tasks": mean.n}


def _check_questions(row: str, asked: dict[str, str], reference: str, expected: dict[str, str]) -> None:
    """Task sets of another seed number their tasks alike. Raises InputError where equal ids are different tasks."""
    if other := [task for task in sorted(asked) if asked[task] != expected[task]]:
        raise InputError(
            f"row {row}: task {other[0]!r} is another one than in row {reference}: "
            f"found {asked[other[0]]!r}, expected {expected[other[0]]!r}"
        )


def _costs(place: Path, row: Row, system: System) -> dict[str, Any]:
    record = _read_json(place / RECORD)
    costs: dict[str, Any] = {"seeds": len(row.params.seeds), "rollouts": 0, "rl_seconds": 0.0}
    costs["commit"] = record["commit"][:10] + ("+changes" if record["dirty"] else "")
    for seed in row.params.seeds if system not in _UNTRAINED else ():
        costs["rollouts"] += read_episodes(place / layout.RL_EPISODES / f"{seed}.parquet").height
        steps = _read_json(place / layout.METRICS / "history" / f"rl-{seed}.json")
        costs["rl_seconds"] += sum(step.get("step_time", 0.0) for step in steps)
    return costs


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not readable as JSON: {error}") from error


def _settings(changes: dict[str, Any], prefix: str = "") -> str:
    """Nested settings as `rl.arms=8 rl.rollouts=1`, without the systems, which have lines of their own."""
    parts = []
    for key, value in changes.items():
        if isinstance(value, dict):
            parts.append(_settings(value, f"{prefix}{key}."))
        elif f"{prefix}{key}" != "evaluate.systems":
            parts.append(f"{prefix}{key}={value}")
    return " ".join(part for part in parts if part)


def _interval(value: float | None, low: float, high: float, sign: str) -> str:
    return "" if value is None else f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"
