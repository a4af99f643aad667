"""Sending what MLflow did not take when it happened."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from talentrl import layout
from talentrl.provenance import is_alive
from talentrl.tracking import store
from talentrl.tracking.journal import Journal

if TYPE_CHECKING:
    from mlflow import MlflowClient


def journals(root: Path = Path()) -> list[Path]:
    """The journals of the project at `root` and of its sweeps' rows."""
    return sorted(
        [*root.glob(f"{layout.TRACKING}/*.jsonl"), *root.glob(f"{layout.SWEEPS}/*/*/{layout.TRACKING}/*.jsonl")]
    )


def replay(paths: list[Path]) -> Iterator[tuple[Path, str, int]]:
    """Send each journal and remove it; yield its path, the run's id and the number of events.

    A journal whose process still runs is left to it. A run that was killed before its end is ended as FAILED.

    Raises:
        InputError: a journal is broken.
        Exception: what MLflow raised; the journal stays, and a repeated replay sends nothing twice.
    """
    uri = store.tracking_uri()
    for path in paths:
        journal = Journal(path)
        found = list(journal.read())
        if not found:  # killed while it wrote the first line
            journal.remove()
            continue
        (kind, values), *events = found
        process = values["tags"]["talentrl.process"] if kind == "open" else values[2]
        if is_alive(process):
            continue
        client, run_id, parent_id = _opened(uri, journal, values)
        if not events or events[-1][0] != "end":
            events.append(("end", ["FAILED", None]))
        for event in events:
            store.apply(client, run_id, parent_id, *event)
        journal.remove()
        yield path, run_id, len(events)


def _opened(uri: str, journal: Journal, values: "store.Opening | list[str]") -> "tuple[MlflowClient, str, str]":
    if isinstance(values, dict):
        return store.open_run(uri, values, journal.name)
    return store.connect(uri), values[0], values[1]
