"""The commands on runs: `talentrl status`, `compare` and `promote`.

They read MLflow, DVC and the episodes; only `promote` writes, and only an alias and its evidence.
"""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from talentrl import layout
from talentrl.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from talentrl.evaluation.comparing import PairedResult, Side
    from talentrl.tracking.reading import Reader, RecordedRun

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_FIRST_BASELINE = "flat"
_PROMOTABLE = "expected an interval whose lower end is above 0"


def status(
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, help="How many runs to show.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show the servers of `talentrl up`, which stages are stale and why, and the last runs."""
    from talentrl import servers
    from talentrl.stages import stage_states
    from talentrl.tracking import tracking_uri
    from talentrl.tracking.reading import Unreadable, open_reader
    from talentrl.tracking.reasons import redacted
    from talentrl.tracking.replay import journals

    record: dict[str, Any] = {"servers": None, "stages": None, "runs": None}
    if found := servers.running():
        answering = {name: servers.answers(address) for name, address in found.health.items()}
        record["servers"] = {
            name: {"address": address, "answers": answering[name]} for name, address in vars(found).items()
        }
    try:
        record["stages"] = [{"stage": stage.name, "changed": stage.changed} for stage in stage_states()]
    except InputError as error:
        record["stages_error"] = str(error)
    record["tracking"] = redacted(tracking_uri())
    try:
        reader = open_reader()
        record["runs"] = [_run_record(run) for run in reader.last(runs)] if reader else []
    except Unreadable as error:
        record["runs_error"] = str(error)
    record["journals"] = len(journals())
    _show(record, as_json, "show_status")


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN RUN...", help="Ids (or their beginning), names, or rows of sweeps.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Compare runs with the first one: differences of metrics, with paired intervals where both left episodes.

    A run is one of a stage, one of a pipeline, or a row of a sweep, as ROW or SWEEP/ROW. The last two stand for their
    stages.
    """
    if len(names) < 2:
        raise InputError(f"RUN: found {len(names)}, expected at least two to compare")
    from talentrl.evaluation.comparing import compare_runs

    reader = _reader()
    found = [_finished(reader.find(name)) for name in names]
    single = all(len(runs) == 1 and "system" in runs[0].tags for runs in found)  # then systems may differ
    sides = [_side(runs, single) for runs in found]
    tables = [compare_runs(sides[0], side) for side in sides[1:]]
    comparisons = [
        {"first": names[0], "second": name, "metrics": table.to_dicts()}
        for name, table in zip(names[1:], tables, strict=True)
    ]
    titles = {name: [f"{run.title} {run.id[:8]}" for run in runs] for name, runs in zip(names, found, strict=True)}
    _show({"runs": titles, "comparisons": comparisons}, as_json, "show_comparisons")


def promote(as_json: JsonOption = False) -> None:
    """Make the registry's candidate the champion if it is better: paired by task, the interval must lie above 0.

    The first champion is compared with `flat`: the same checkpoint without talents. Exit code 1 if it is refused.
    """
    from talentrl.evaluation.comparing import compare_episodes
    from talentrl.tracking import registry
    from talentrl.tracking.reading import answering

    reader = _reader()
    with answering():
        candidate = registry.version_at(reader.client, registry.CANDIDATE)
        champion = registry.version_at(reader.client, registry.CHAMPION)
    if candidate is None:
        raise InputError(f"no version of {registry.MODEL} has the alias {registry.CANDIDATE}: `dvc repro rl` makes one")
    name = f"version {candidate.version} ({candidate.tags['dvc.path']})"
    if champion is not None and champion.version == candidate.version:
        raise InputError(f"{name} is the champion already: expected a newer candidate")
    if champion is None:
        against = f"{_FIRST_BASELINE} on the same checkpoint"
        other = _evaluated(reader, candidate.tags, _FIRST_BASELINE, against)
    else:
        against = f"version {champion.version} ({champion.tags['dvc.path']})"
        other = _evaluated(reader, champion.tags, champion.tags["stage"], against)
    result = compare_episodes(other, _evaluated(reader, candidate.tags, candidate.tags["stage"], name))
    accepted = result.comparison.difference.low > 0
    record = {"candidate": name, "against": against, **_evidence(result), "promoted": accepted}
    if accepted:
        evidence = {key: value for key, value in record.items() if key not in ("candidate", "promoted")}
        with answering():
            registry.promote(reader.client, candidate.version, evidence)
    _show(record, as_json, "show_promotion")
    if not accepted:
        typer.echo(f"Refused: {_PROMOTABLE}", err=True)
        raise typer.Exit(1)


def _show(record: dict[str, Any], as_json: bool, show: str) -> None:
    if as_json:
        typer.echo(json.dumps(_json_values(record), ensure_ascii=False, indent=1))
        return
    from talentrl import run_display

    getattr(run_display, show)(Console(markup=False, highlight=False, emoji=False), record)


def _json_values(value: Any) -> Any:
    """`value` with null for the numbers that JSON has not: NaN and the infinite ones."""
    if isinstance(value, dict):
        return {key: _json_values(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_json_values(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _reader() -> "Reader":
    from talentrl.tracking.reading import open_reader

    reader = open_reader()
    if reader is None:
        raise InputError("MLflow has no run of this project yet: `dvc repro` makes some")
    return reader


def _finished(runs: "Sequence[RecordedRun]") -> "list[RecordedRun]":
    """The newest finished run of each stage; all runs if none has finished."""
    from talentrl.tracking.reading import latest

    return latest([run for run in runs if run.status == "FINISHED"] or runs)


def _side(runs: "Sequence[RecordedRun]", single: bool) -> "Side":
    """The mean of each metric over runs (seeds), and the episodes by system."""
    import polars as pl

    from talentrl.evaluation.comparing import Side

    values: dict[str, list[float]] = {}
    episodes: dict[str, list[pl.DataFrame]] = {}
    for run in runs:
        system = run.tags.get("system", "")
        for name, value in run.metrics.items():
            values.setdefault(name.replace(f"/{system}/", "/") if single else name, []).append(value)
        frame = _episodes(run)
        if frame is not None:
            episodes.setdefault("" if single else system, []).append(frame)
    means = {name: sum(found) / len(found) for name, found in values.items()}
    return Side(means, {system: pl.concat(frames) for system, frames in episodes.items()})


def _episodes(run: "RecordedRun") -> "pl.DataFrame | None":
    """The episodes that an evaluation left, if their file is still here or in DVC's cache."""
    from talentrl.rollouts.episode import read_episodes
    from talentrl.stages import output_with

    if "episodes.md5" not in run.tags:
        return None
    file = output_with(Path(run.tags["episodes.path"]), run.tags["episodes.md5"])
    return None if file is None else read_episodes(file)


def _evaluated(reader: "Reader", version: dict[str, str], system: str, what: str) -> "pl.DataFrame":
    """The newest episodes of `system` with the checkpoint of a version's tags."""
    for run in reader.evaluations(version["dvc.md5"], system):
        if run.status == "FINISHED" and (frame := _episodes(run)) is not None:
            return frame
    raise InputError(
        f"no episodes of {what} are in {layout.EVALUATION} or DVC's cache: "
        f"`dvc repro evaluate@{version['seed']}-{system}` makes them for the checkpoint in {version['dvc.path']}"
    )


def _evidence(result: "PairedResult") -> dict[str, Any]:
    difference = result.comparison.difference
    return {
        **{"difference": difference.value, "low": difference.low, "high": difference.high, "tasks": difference.n},
        **{"p_value": result.comparison.p_value, "test": result.comparison.test, "note": result.note},
    }


def _run_record(run: "RecordedRun") -> dict[str, Any]:
    seconds = run.seconds if run.seconds is not None else (datetime.now(UTC) - run.started).total_seconds()
    row = run.tags.get("sweep.row")
    return {
        **{"run": run.id, "stage": run.title, "row": f"{run.tags['sweep']}/{row}" if row else None},
        **{"status": run.status, "started": run.started.isoformat(timespec="seconds"), "seconds": round(seconds, 1)},
    }
