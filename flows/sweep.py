"""A sweep as a Prefect flow: each row of a sweep file is a DVC target in a workspace of its own, one after the other.

A row that has finished with the same settings is skipped, one that was named is handed to DVC again, which runs what
is stale. A row that fails does not stop the others. At the end all finished rows make the sweep's table.
"""

import argparse
import json
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed, Failed, State

from flows.child import StageFailed, run_dvc
from flows.pipeline import exit_codes
from flows.workspace import Snapshot, prepare, take_snapshot
from talentrl import layout
from talentrl.config import load_params
from talentrl.errors import InputError
from talentrl.evaluation.ablations import RECORD, is_finished, write_tables
from talentrl.files import write_text
from talentrl.provenance import SWEEP_ROW
from talentrl.sweep import Row, Sweep, load_sweep
from talentrl.tracking import tracking_uri


@task(task_run_name="{row.name}", cache_policy=NO_CACHE)
def run_row(sweep: Sweep, row: Row, snapshot: Snapshot, again: bool) -> State[Any]:
    """Run one row unless it has finished (`again`: even then). Ends Completed, Skipped or Failed."""
    folder = layout.SWEEPS / sweep.name / row.name
    if is_finished(folder, row) and not again:
        get_run_logger().info("Row %s has finished: skipped", row.name)
        return Completed(name="Skipped", message="finished with the same settings")
    try:
        with FileLock(folder.with_name(f".{row.name}.lock"), timeout=0):
            _run_row(sweep, row, snapshot, folder)
    except Timeout:
        return Failed(message=f"row {row.name}: another process runs it")
    except StageFailed as error:
        return Failed(data=error, message=str(error))
    except subprocess.CalledProcessError as error:  # git, while the workspace is prepared
        return Failed(data=error, message=f"row {row.name}: {error.stderr.decode().strip()}")
    return Completed()


def _run_row(sweep: Sweep, row: Row, snapshot: Snapshot, folder: Path) -> None:
    (folder / RECORD).unlink(missing_ok=True)
    prepare(folder, snapshot, row.params)
    started = time.monotonic()
    environment = {SWEEP_ROW: f"{sweep.name}/{row.name}", "MLFLOW_TRACKING_URI": tracking_uri()}
    run_dvc(["repro", sweep.target], f"row {row.name}", get_run_logger().info, folder=folder, environment=environment)
    record = {
        "row": row.name,
        "changes": row.changes,
        "params": row.params.model_dump(),
        "commit": snapshot.commit,
        "dirty": bool(snapshot.changes),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 1),
    }
    write_text(folder / RECORD, json.dumps(record, indent=1) + "\n")


@flow(flow_run_name="sweep {path}")
def sweep(path: str, rows: list[str] | None = None) -> dict[str, str] | State[Any]:
    """Run the rows of the sweep file at `path` that have not finished; or those that are named, in any case."""
    log = get_run_logger()
    plan = load_sweep(Path(path), load_params())
    snapshot = take_snapshot()
    results: dict[str, str] = {}
    failures: list[str] = []
    for row in selected(plan, rows, path):
        state = run_row(plan, row, snapshot, bool(rows), return_state=True)
        results[row.name] = state.name or state.type.value
        if not state.is_completed():
            failures.append(f"row {row.name}: run it again with `{command(path, row.name)}`")
            log.error("%s\n%s", state.message, failures[-1])
    markdown = write_tables(plan, layout.SWEEPS / plan.name)
    create_markdown_artifact(markdown, key=f"sweep-{plan.name}".replace("_", "-"), description="Finished rows")
    log.info("Rows: %s; table in %s", results, layout.SWEEPS / plan.name / "table.md")
    if failures:
        message = "\n".join([f"{len(failures)} of {len(results)} rows failed", *failures])
        return Failed(data=StageFailed(message), message=message)
    return results


def selected(plan: Sweep, rows: list[str] | None, path: str) -> list[Row]:
    """The named rows, or all. Raises InputError for a name that is no row."""
    for name in rows or ():
        if name not in plan.rows:
            raise InputError(f"{path}: found no row {name!r}, expected one of {', '.join(plan.rows)}")
    return [row for row in plan.rows.values() if not rows or row.name in rows]


def command(path: str, row: str) -> str:
    """The command line that runs one row."""
    return f"python -m flows.sweep {path} --rows {row}"


def main() -> None:
    """`python -m flows.sweep FILE [--rows NAME …] [--table]`: exit code 2 on bad input, 1 if a row failed."""
    parser = argparse.ArgumentParser(prog="python -m flows.sweep", description=sweep.description)
    parser.add_argument("path", metavar="FILE", help="a sweep file such as sweeps/ablations.yaml")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="these rows, also where they have finished")
    parser.add_argument("--table", action="store_true", help="run nothing: write the table of the finished rows")
    arguments = parser.parse_args()
    with exit_codes("sweep"):
        # Bad input is refused before a server starts.
        plan = load_sweep(Path(arguments.path), load_params())
        selected(plan, arguments.rows, arguments.path)
        if arguments.table:
            print(write_tables(plan, layout.SWEEPS / plan.name))
            return
        take_snapshot()
        sweep(arguments.path, arguments.rows)


if __name__ == "__main__":
    main()
