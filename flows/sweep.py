"""A sweep as a Prefect flow: each row of a sweep file is a DVC target in a workspace of its own.

The reference row runs first and alone, so that the others find the stages they share with it in DVC's cache; the others
run side by side, as many as there are workers. A row that has finished with the same settings is skipped, one that was
named is handed to DVC again, which runs what is stale. A row that fails does not stop the others. After each row the
finished ones make the sweep's table.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, get_args

from filelock import FileLock, Timeout
from prefect import flow, get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import as_completed
from prefect.states import Completed, Failed, State
from prefect.task_runners import TaskRunner
from pydantic import Field

from flows.artifacts import Progress, artifact_key, link_to_mlflow
from flows.child import StageFailed, StageKilled, may_end_well, run_dvc, stop_all
from flows.hardware import gpu_slots
from flows.pipeline import exit_codes
from flows.runners import Runner, task_runner
from flows.workspace import Snapshot, prepare, take_snapshot
from talentrl import layout
from talentrl.config import load_params
from talentrl.errors import InputError
from talentrl.evaluation.ablations import RECORD, is_finished, write_tables
from talentrl.files import write_text
from talentrl.provenance import SWEEP_ROW
from talentrl.sweep import Row, Sweep, load_sweep
from talentrl.tracking import tracking_uri


@task(task_run_name="{row.name}", cache_policy=NO_CACHE, retries=1, retry_condition_fn=may_end_well)
def run_row(sweep: Sweep, row: Row, snapshot: Snapshot, again: bool) -> State[Any]:
    """Run one row unless it has finished (`again`: even then). Ends Completed, Skipped or Failed.

    A row holds its GPU from beginning to end.
    """
    log = get_run_logger().info
    folder = layout.SWEEPS / sweep.name / row.name
    if is_finished(folder, row) and not again:
        log("Row %s has finished: skipped", row.name)
        return Completed(name="Skipped", message="finished with the same settings")
    try:
        with FileLock(folder.with_name(f".{row.name}.lock"), timeout=0), gpu_slots(row.params.hardware, log):
            _run_row(sweep, row, snapshot, folder)
    except Timeout:
        return Failed(message=f"row {row.name}: another process runs it")
    except StageFailed as error:
        return Failed(data=error, message=str(error))
    except subprocess.CalledProcessError as error:  # git, while the workspace is prepared
        message = f"row {row.name}: {error.stderr.decode().strip()}"
        return Failed(data=StageKilled(message), message=message)
    return Completed()


def _run_row(sweep: Sweep, row: Row, snapshot: Snapshot, folder: Path) -> None:
    (folder / RECORD).unlink(missing_ok=True)
    prepare(folder, snapshot, row.params)
    started = time.monotonic()
    key = f"{sweep.name}/{row.name}"
    environment = {SWEEP_ROW: key, "MLFLOW_TRACKING_URI": tracking_uri()}
    log, progress = get_run_logger().info, Progress(key)
    run_dvc(["repro", sweep.target], f"row {row.name}", log, folder, environment, progress)
    link_to_mlflow(key)
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


def run_name() -> str:
    """What a flow run is called: the sweep and its rows."""
    parameters = runtime.flow_run.parameters
    return f"{Path(parameters['path']).stem}: {', '.join(parameters.get('rows') or ['all rows'])}"


@flow(flow_run_name=run_name)
def sweep(
    path: str,
    rows: list[str] | None = None,
    workers: Annotated[int, Field(ge=1)] = 1,
    runner: Runner = "threads",
) -> dict[str, str] | State[Any]:
    """Run the rows of a sweep file that have not finished, and compare them with its reference row.

    Args:
        path: a sweep file: it names the rows, each params.yaml with some other values.
        rows: only these, also where they have finished; else all.
        workers: rows that run side by side.
        runner: what runs them; see docs/workflow.md.
    """
    log = get_run_logger()
    plan = load_sweep(Path(path), load_params())
    chosen = selected(plan, rows, path)
    snapshot = take_snapshot()
    results: dict[str, str] = {}
    failures: list[str] = []
    with task_runner(runner, workers) as pool:
        try:
            for name, state in _run_all(pool, plan, chosen, snapshot, bool(rows)):
                results[name] = state.name or state.type.value
                if not state.is_completed():
                    failures.append(f"row {name}: run it again with `{command(path, name)}`")
                    log.error("%s\n%s", state.message, failures[-1])
                elif state.name != "Skipped":
                    show_table(plan)
        except BaseException:
            stop_all()  # else the pool would wait for the children of its threads
            raise
    show_table(plan)
    log.info("Rows: %s; table in %s", results, layout.SWEEPS / plan.name / "table.md")
    if failures:
        message = "\n".join([f"{len(failures)} of {len(results)} rows failed", *failures])
        return Failed(data=StageFailed(message), message=message)
    return results


def _run_all(
    pool: TaskRunner[Any], plan: Sweep, rows: list[Row], snapshot: Snapshot, again: bool
) -> Iterator[tuple[str, State[Any]]]:
    """Rows as they end; the reference before others start."""
    for together in (
        [row for row in rows if row.name == plan.reference],
        [row for row in rows if row.name != plan.reference],
    ):
        futures = {
            pool.submit(run_row, {"sweep": plan, "row": row, "snapshot": snapshot, "again": again}): row.name
            for row in together
        }
        for future in as_completed(list(futures)):
            future.wait()  # else `state` is what the server knew a moment ago
            yield futures[future], future.state


def show_table(plan: Sweep) -> None:
    """Write the table of the rows that have finished so far, as files and as an artifact."""
    markdown = write_tables(plan, layout.SWEEPS / plan.name)
    create_markdown_artifact(markdown, key=artifact_key("sweep", plan.name), description="Finished rows")


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
    """`python -m flows.sweep FILE [OPTIONS]`: exit code 2 on bad input, 1 if a row failed."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.sweep", description="The rows of a sweep file, and their table."
    )
    parser.add_argument("path", metavar="FILE", help="a sweep file such as sweeps/ablations.yaml")
    parser.add_argument("--rows", nargs="+", metavar="NAME", help="these rows, also where they have finished")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="rows side by side (default: 1)")
    parser.add_argument("--runner", choices=get_args(Runner), default="threads", help="what runs them")
    parser.add_argument(
        "--table",
        nargs="?",
        const="",
        metavar="FOLDER",
        help="run nothing: write the table of the finished rows in FOLDER (default: where the sweep leaves them)",
    )
    arguments = parser.parse_args()
    with exit_codes("sweep"):
        # Bad input is refused before a server starts.
        plan = load_sweep(Path(arguments.path), load_params())
        selected(plan, arguments.rows, arguments.path)
        if arguments.table is not None:
            print(write_tables(plan, Path(arguments.table or layout.SWEEPS / plan.name)))
            return
        task_runner(arguments.runner, arguments.workers)
        take_snapshot()
        sweep(arguments.path, arguments.rows, arguments.workers, arguments.runner)


if __name__ == "__main__":
    main()
