"""What MLflow holds: the last runs, the runs that a name means, and evaluations of a checkpoint.

A stage's run is one that `talentrl.tracking.run.track` opened. The tag `dvc.stage` tells it apart from its parent, the
run of a pipeline or of a sweep's row.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from talentrl.errors import InputError
from talentrl.tracking import store
from talentrl.tracking.reasons import reason, redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

_IS_STAGE = "tags.`dvc.stage` != ''"
_NEWEST = ["attributes.start_time DESC"]
_SHOWN = 5  # runs that an error names


class Unreadable(RuntimeError):
    """MLflow does not answer; the message says why."""


@dataclass(frozen=True)
class RecordedRun:
    """A run as MLflow holds it."""

    id: str
    name: str
    status: str
    started: datetime
    seconds: float | None
    """None while it runs."""
    metrics: dict[str, float]
    """The last value of each."""
    tags: dict[str, str]

    @property
    def title(self) -> str:
        """The stage as DVC names it: `rl@7`, `evaluate@7-flat`; else the run's name."""
        parts = [self.tags[key] for key in ("seed", "system") if key in self.tags]
        return "@".join([self.tags.get("dvc.stage", self.name), *(["-".join(parts)] if parts else [])])


@dataclass(frozen=True)
class Reader:
    """Reads the runs of one experiment."""

    client: "MlflowClient"
    experiment: str

    def last(self, count: int) -> list[RecordedRun]:
        """The stages' runs that started last, the newest first."""
        return self._search(_IS_STAGE, count)

    def find(self, name: str) -> list[RecordedRun]:
        """The stages' runs that `name` means, the newest first.

        It is the id of a run or its beginning, a sweep's row as `ROW` or `SWEEP/ROW`, or the name of a run. A run of a
        pipeline or a row stands for its stages.

        Raises:
            InputError: it means none, or several.
        """
        found: list[RecordedRun] = []
        if re.fullmatch("[0-9a-f]{4,32}", name):
            found = self._search(f"attributes.run_id LIKE '{name}%'", 2)
        if not found and re.fullmatch(r"[\w./@ -]+", name):
            if row := self._row(name):
                return row
            found = self._search(f"attributes.run_name = '{name}'", _SHOWN)
        if not found:
            raise InputError(
                f"no run {name!r} in MLflow: expected a run's id or name, or a row of a sweep that has run"
            )
        if len(found) > 1:
            shown = ", ".join(f"{run.id[:8]} ({run.title}, {run.started:%Y-%m-%d %H:%M})" for run in found)
            raise InputError(f"{name!r} means several runs: {shown}; name one by its id")
        [run] = found
        if "dvc.stage" in run.tags:
            return [run]
        return self._search(f"tags.`mlflow.parentRunId` = '{run.id}'")

    def evaluations(self, checkpoint: str, system: str) -> list[RecordedRun]:
        """Runs that evaluated `system` with the checkpoint of that digest, the newest first."""
        where = [f"tags.`model.md5` = '{checkpoint}'", f"tags.system = '{system}'", "tags.`episodes.md5` != ''"]
        return self._search(" and ".join(where))

    def _row(self, name: str) -> list[RecordedRun]:
        sweep, _, row = name.rpartition("/")
        found = self._search(f"tags.`sweep.row` = '{row}' and {_IS_STAGE}")
        found = [run for run in found if sweep in ("", run.tags["sweep"])]
        if len(rows := sorted({f"{run.tags['sweep']}/{row}" for run in found})) > 1:
            raise InputError(f"{name!r} is a row of several sweeps: expected one of {', '.join(rows)}")
        return found

    def _search(self, where: str, count: int | None = None) -> list[RecordedRun]:
        found: list[MlflowRun] = []
        page = None
        while count is None or len(found) < count:
            with answering():
                part = self.client.search_runs([self.experiment], where, 1, count or 1000, _NEWEST, page)
            found += part
            page = part.token
            if not page:
                break
        return [_recorded(run) for run in found]


def open_reader() -> Reader | None:
    """The project's runs; None if there is no store yet, or no run in it.

    Raises:
        InputError: MLFLOW_TRACKING_URI names a folder.
        Unreadable: MLflow does not answer.
    """
    uri = store.tracking_uri()
    if uri.startswith(store.SQLITE) and not Path(uri.removeprefix(store.SQLITE)).exists():
        return None  # reading creates nothing
    with answering():
        client = store.connect(uri)
        experiment = client.get_experiment_by_name(store.experiment_name())
    return Reader(client, experiment.experiment_id) if experiment else None


@contextmanager
def answering() -> Iterator[None]:
    """Turn whatever MLflow raises in the block into `Unreadable`."""
    try:
        yield
    except Exception as error:
        raise Unreadable(f"MLflow at {redacted(store.tracking_uri())} does not answer ({reason(error)})") from error


def latest(runs: Iterable[RecordedRun]) -> list[RecordedRun]:
    """Of `runs`, the newest first, the newest of each stage, system and seed."""
    kept: dict[str, RecordedRun] = {}
    for run in runs:
        kept.setdefault(run.title, run)
    return list(kept.values())


def _recorded(run: Any) -> RecordedRun:
    info = run.info
    seconds = None if info.end_time is None else (info.end_time - info.start_time) / 1000
    started = datetime.fromtimestamp(info.start_time / 1000, UTC)
    return RecordedRun(info.run_id, info.run_name, info.status, started, seconds, run.data.metrics, run.data.tags)
