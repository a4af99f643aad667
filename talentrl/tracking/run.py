"""One stage's run: opened, written to, ended, whatever becomes of the store."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from talentrl.processes import is_first_process
from talentrl.provenance import content_digest, pipeline_key, process_key, provenance
from talentrl.tracking import store
from talentrl.tracking.journal import Journal
from talentrl.tracking.reasons import reason

if TYPE_CHECKING:
    from mlflow import MlflowClient

PARENT_RUN = "TALENTRL_PARENT_RUN_ID"  # names the parent run outright
FLUSH_SECONDS = 5.0  # metrics wait at most this long, so that a training step seldom pays for a request

log = logging.getLogger(__name__)


class Run:
    """Takes metrics, tags and files.

    Once a call has failed, the rest goes to the journal until the run ends, when all that waits is tried once more: a
    server that came back shows the run ended.
    """

    def __init__(
        self, journal: Journal, client: "MlflowClient | None" = None, id: str = "", parent_id: str = ""
    ) -> None:
        """A run that is open in MLflow, or, without `client`, one that only its journal knows."""
        self.id = id
        self.parent_id = parent_id
        self._client = client
        self._journal = journal
        self._down = client is None
        self._metrics: list[tuple[str, float, int, int]] = []  # name, value, milliseconds, step
        self._flushed = time.monotonic()

    def log(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Record numbers of one step; they are sent in batches, at the latest when the run ends."""
        now = int(time.time() * 1000)
        self._metrics += [(name, float(value), now, step) for name, value in metrics.items()]
        if len(self._metrics) >= store.METRIC_BATCH or time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Send the metrics that wait."""
        self._flushed = time.monotonic()
        waiting, self._metrics = self._metrics, []
        if waiting:
            self.record("metrics", waiting)

    def tag(self, key: str, value: str) -> None:
        """Set one tag, such as `skillbank.digest`."""
        self.record("tag", [key, value])

    def artifact(self, path: Path) -> None:
        """Keep a copy of a small file with the run; data and models belong to DVC."""
        self.record("artifact", str(path.absolute()))

    def register(self, path: Path, stage: str, seed: int) -> None:
        """Register the checkpoint in `path`, which this run trained, as `talentrl.tracking.registry` says."""
        where = {"dvc.path": path.as_posix(), "dvc.md5": content_digest(path)}
        self.record("model", {"stage": stage, "seed": str(seed), **where, "trained": str(int(time.time() * 1000))})

    def end(self, status: str) -> None:
        """Send what waits and end the run as FINISHED or FAILED; the parent follows."""
        self.flush()
        self.record("end", [status, int(time.time() * 1000)])
        if self._down:
            self._send_journal()
        if self._journal.waiting:
            log.warning("The disk is full: %d records of the run are lost", len(self._journal.waiting))

    def record(self, kind: str, values: Any) -> None:
        """Send one event to MLflow, or keep it."""
        if self._client is not None and not self._down:
            try:
                store.apply(self._client, self.id, self.parent_id, kind, values)
                return
            except Exception as error:
                self._down = True
                _warn(error)
                _keep(self._journal, "run", [self.id, self.parent_id, process_key()])
        _keep(self._journal, kind, values)

    def _send_journal(self) -> None:
        """Send what the journal holds, if the run is open in MLflow."""
        if self._client is None:
            return
        try:
            for kind, values in self._journal.read():
                store.apply(self._client, self.id, self.parent_id, kind, values)
        except Exception:
            return  # warned already; `talentrl track replay` tries again
        self._journal.remove()


class _SilentRun(Run):
    """Of a process beside the one that keeps the records."""

    def record(self, kind: str, values: Any) -> None:
        """Nothing."""


@contextmanager
def track(
    stage: str, params: Mapping[str, Any], inputs: Mapping[str, Path], tags: Mapping[str, str] | None = None
) -> Iterator[Run]:
    """Open the nested run of `stage`, and its parent if this is the pipeline's first stage.

    `params` may be nested; they are logged as `section.key`. `inputs` (name → file or folder) are logged as
    dataset inputs with the digest that DVC gives the same bytes. The run ends FAILED on any exception, an
    interrupt or `SystemExit` too, and FINISHED otherwise. One that was killed outright is ended as FAILED by the next
    run that opens. Where several processes train together, the first one keeps the records.

    Raises:
        InputError: MLFLOW_TRACKING_URI names a folder, which MLflow no longer supports.
    """
    uri = store.tracking_uri()
    journal = Journal()
    if not is_first_process():
        yield _SilentRun(journal)
        return
    opening: store.Opening = {
        "stage": stage,
        "tags": {**provenance(), **(tags or {}), "dvc.stage": stage, "talentrl.process": process_key()},
        "pipeline": pipeline_key(),
        "parent": os.environ.get(PARENT_RUN),
        "start": int(time.time() * 1000),
    }
    try:
        run = Run(journal, *store.open_run(uri, opening, journal.name))
    except Exception as error:
        _warn(error)
        _keep(journal, "open", opening)
        run = Run(journal)
    try:
        run.record("params", store.flatten(params))
        if inputs:
            run.record("inputs", [[name, str(path), content_digest(path)] for name, path in inputs.items()])
        yield run
    except BaseException:
        run.end("FAILED")
        raise
    run.end("FINISHED")


def _keep(journal: Journal, kind: str, values: Any) -> None:
    """Write an event to the journal; a full disk does not stop the stage."""
    try:
        journal.write(kind, values)
    except OSError as error:
        if len(journal.waiting) == 1:
            log.warning("What MLflow does not take cannot be kept in %s either (%s)", journal.path, error.strerror)


def _warn(error: Exception) -> None:
    log.warning(
        "MLflow tracking failed; the stage goes on, and `talentrl track replay` will send what it records (%s)",
        reason(error),
    )
