"""What `talentrl status`, `compare` and `promote` show in a terminal; each takes the record that `--json` prints."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

_FORMS = {"first": ".4g", "second": ".4g", "difference": "+.4g"}


def show_status(console: Console, record: Mapping[str, Any]) -> None:
    """Servers, stages with what changed, and the last runs."""
    for name, server in (record["servers"] or {}).items():
        state = "running" if server["answers"] else "does not answer"
        console.print(f"{name:8} {server['address']}  {state}", soft_wrap=True)
    if record["servers"] is None:
        console.print("servers  not running: `talentrl up` starts them", soft_wrap=True)
    console.print(f"runs in  {record['tracking']}", soft_wrap=True)
    if record["journals"]:
        console.print(f"waiting  {record['journals']} journals: `talentrl track replay` sends them", soft_wrap=True)
    if record["stages"] is None:
        console.print(record["stages_error"], soft_wrap=True)
    else:
        stages = _table("stage", "state", "what changed")
        for stage in record["stages"]:
            stages.add_row(stage["stage"], "stale" if stage["changed"] else "up to date", "\n".join(stage["changed"]))
        console.print(stages)
    if record["runs"] is None:
        console.print(record["runs_error"], soft_wrap=True)
    elif not record["runs"]:
        console.print("No runs yet.")
    else:
        runs = _table("run", "stage", "sweep/row", "status", "started", "took")
        for run in record["runs"]:
            started = datetime.fromisoformat(run["started"]).astimezone()
            took = timedelta(seconds=round(run["seconds"]))
            row = (
                run["run"][:8],
                run["stage"],
                run["row"] or "",
                run["status"],
                f"{started:%Y-%m-%d %H:%M}",
                str(took),
            )
            runs.add_row(*row)
        console.print(runs)


def show_comparisons(console: Console, record: Mapping[str, Any]) -> None:
    """A table for each run that is compared with the first."""
    for name, runs in record["runs"].items():
        console.print(f"{name}: {', '.join(runs)}", soft_wrap=True)
    for comparison in record["comparisons"]:
        first, second = comparison["first"], comparison["second"]
        paired = _table("metric", first, second, "difference", "95 % interval", "p", "tasks", "note")
        bare = _table("metric without episodes", first, second, "difference")
        for row in comparison["metrics"]:
            values = [_number(row[key], form) for key, form in _FORMS.items()]
            if row["tasks"] is None:
                bare.add_row(row["metric"], *(values if row["difference"] is not None else ["", "", row["note"]]))
            else:
                interval = f"{row['low']:+.3f} to {row['high']:+.3f}"
                figures = (*values, interval, f"{row['p_value']:.4f}", str(row["tasks"]))
                paired.add_row(row["metric"], *figures, row["note"])
        for table in (paired, bare):
            if table.row_count:
                console.print(table)
        if not comparison["metrics"]:
            console.print(f"{first} and {second} have no metric in common.")


def show_promotion(console: Console, record: Mapping[str, Any]) -> None:
    """The difference that the decision rests on, and the decision if it is yes."""
    difference = f"{record['difference']:+.3f}, 95 % interval {record['low']:+.3f} to {record['high']:+.3f}"
    tasks = " ".join(filter(None, [str(record["tasks"]), "tasks", record["note"]]))
    shown = f"{record['candidate']} minus {record['against']}: {difference}, {tasks}, p {record['p_value']:.4f}"
    console.print(shown, soft_wrap=True)
    if record["promoted"]:
        console.print(f"{record['candidate']} is the champion now.", soft_wrap=True)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


def _table(*columns: str) -> Table:
    """An empty table whose first column is never wrapped."""
    table = Table()
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    return table
