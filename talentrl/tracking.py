"""What happened, recorded in MLflow: one parent run a pipeline, one nested run a stage.

Every stage is a process of its own, so nothing here rests on MLflow's active run: each call names its run.
Stages find their common parent by a tag that names the pipeline they belong to: the Prefect flow run, else
the `dvc` process above them, else the process itself. The parent's status follows from its stages.

Tracking never stops the work. The first call that MLflow refuses gives one warning; the stage goes on, and
its metrics are on disk all the same. Only a store that can never work (a folder) is an `InputError`.
"""

import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from filelock import FileLock

from talentrl.errors import InputError
from talentrl.files import sha256
from talentrl.provenance import content_digest, pipeline_key, provenance

if TYPE_CHECKING:
    from mlflow import MlflowClient

PARENT_RUN = "TALENTRL_PARENT_RUN_ID"  # names the parent run outright
SQLITE = "sqlite:///"

PARAM_LENGTH = 6000  # MLflow's limits: characters of a param's value, then rows a request
PARAM_BATCH, METRIC_BATCH = 100, 1000
FLUSH_SECONDS = 5.0  # metrics wait at most this long, so that a training step seldom pays for a request

DEFAULTS = {  # where the user has not set them: quiet, and seconds instead of minutes of retries
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}

log = logging.getLogger(__name__)


class Run:
    """One stage's run: takes metrics, tags and files.

    Once a call has failed, the rest is skipped until the run ends, when what waits is tried once more: a
    server that came back shows the run ended. Without a client nothing is recorded at all.
    """

    def __init__(self, client: "MlflowClient | None" = None, id: str = "", parent_id: str = "") -> None:
        self.id = id
        self.parent_id = parent_id
        self._client = client
        self._down = client is None
        self._metrics: list[tuple[str, float, int, int]] = []  # name, value, milliseconds, step
        self._flushed = time.monotonic()

    def log(self, metrics: Mapping[str, float], step: int = 0) -> None:
        """Record numbers of one step; they are sent in batches, at the latest when the run ends."""
        now = int(time.time() * 1000)
        self._metrics += [(_key(name), float(value), now, step) for name, value in metrics.items()]
        if len(self._metrics) >= METRIC_BATCH or time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Send the metrics that wait."""
        self._flushed = time.monotonic()
        if self._send(lambda client: _log_metrics(client, self.id, self._metrics)):
            self._metrics = []

    def tag(self, key: str, value: str) -> None:
        """Set one tag, such as `skillbank.digest`."""
        self._send(lambda client: client.set_tag(self.id, key, value))

    def artifact(self, path: Path) -> None:
        """Keep a copy of a small file with the run; data and models belong to DVC."""
        self._send(lambda client: client.log_artifact(self.id, str(path)))

    def end(self, status: str) -> None:
        """Send what waits and end the run as FINISHED or FAILED; the parent follows."""
        self._down = False
        self.flush()
        self._send(lambda client: client.set_terminated(self.id, status))
        self._send(lambda client: _settle(client, self.parent_id))

    def _send(self, call: "Callable[[MlflowClient], object]") -> bool:
        if self._client is None or self._down:
            return False
        try:
            call(self._client)
        except Exception as error:
            self._down = True
            _warn(error)
            return False
        return True


@contextmanager
def track(
    stage: str, params: Mapping[str, Any], inputs: Mapping[str, Path], tags: Mapping[str, str] | None = None
) -> Iterator[Run]:
    """Open the nested run of `stage`, and its parent if this is the pipeline's first stage.

    `params` may be nested; they are logged as `section.key`. `inputs` (name → file or folder) are logged as
    dataset inputs with the digest that DVC gives the same bytes. The run ends FAILED on any exception, an
    interrupt or `SystemExit` too, and FINISHED otherwise.

    Raises:
        InputError: MLFLOW_TRACKING_URI names a folder, which MLflow no longer supports.
    """
    uri = tracking_uri()
    for key, value in DEFAULTS.items():
        os.environ.setdefault(key, value)
    try:
        run = _open(uri, stage, dict(tags or {}))
    except Exception as error:
        _warn(error)
        run = Run()
    try:
        run._send(lambda client: _log_params(client, run.id, params))
        run._send(lambda client: _log_inputs(client, run.id, inputs))
        yield run
    except BaseException:
        run.end("FAILED")
        raise
    run.end("FINISHED")


def tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, else the SQLite file `mlflow.db` in the working directory (for a stage, the root).

    The path of a SQLite file is made absolute.

    Raises:
        InputError: it names a folder.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    if urlsplit(uri).scheme in ("", "file") and not uri.startswith("databricks"):
        raise InputError(
            f"MLFLOW_TRACKING_URI is {uri!r}, a folder, where MLflow no longer keeps runs; expected a "
            "database such as sqlite:///mlflow.db or the address of an MLflow server"
        )
    if uri.startswith(SQLITE):
        return SQLITE + str(Path(uri.removeprefix(SQLITE)).absolute())
    return uri


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level: `{"a": {"b": 1}}` → `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _open(uri: str, stage: str, tags: dict[str, str]) -> Run:
    from mlflow import MlflowClient
    from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # one warning, not one a retry
    pipeline = pipeline_key()
    # The first process on a fresh SQLite store creates its tables, and the first stage creates the parent:
    # neither is atomic in MLflow.
    with _store_lock(uri):
        client = MlflowClient(tracking_uri=uri)
        experiment = _experiment(client, uri)
        parent_id = os.environ.get(PARENT_RUN) or _parent(client, experiment, pipeline)
        client.update_run(parent_id, status="RUNNING")
        tags |= {"dvc.stage": stage, MLFLOW_PARENT_RUN_ID: parent_id}
        info = client.create_run(experiment, run_name=stage, tags=provenance() | tags).info
    return Run(client, info.run_id, parent_id)


def _store_lock(uri: str) -> FileLock:
    folder = Path(tempfile.gettempdir()) / f"talentrl-{getattr(os, 'getuid', getuser)()}"
    folder.mkdir(exist_ok=True)
    return FileLock(folder / f"mlflow-{sha256(uri.encode())[:16]}.lock", timeout=300)


def _experiment(client: "MlflowClient", uri: str) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "talentrl")
    if found := client.get_experiment_by_name(name):
        return found.experiment_id
    served = urlsplit(uri).scheme.startswith(("http", "databricks"))  # a server decides where artifacts go
    root = Path(uri.removeprefix(SQLITE)).parent if uri.startswith(SQLITE) else Path.cwd()
    return client.create_experiment(name, None if served else (root / "mlartifacts").as_uri())


def _parent(client: "MlflowClient", experiment: str, pipeline: str) -> str:
    where = f"tags.`talentrl.pipeline` = '{pipeline}'"
    if found := client.search_runs([experiment], where, max_results=1):
        return found[0].info.run_id
    tags = provenance() | {"talentrl.pipeline": pipeline}
    name = tags.get("sweep.row", "pipeline")
    return client.create_run(experiment, run_name=name, tags=tags).info.run_id


def _settle(client: "MlflowClient", parent_id: str) -> None:
    """Give a parent the status its stages imply: RUNNING while one runs, then FAILED if one failed."""
    experiment = client.get_run(parent_id).info.experiment_id
    stages = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{parent_id}'")
    statuses = {run.info.status for run in stages}
    if "RUNNING" not in statuses:
        client.set_terminated(parent_id, "FINISHED" if statuses == {"FINISHED"} else "FAILED")


def _log_params(client: "MlflowClient", run_id: str, params: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    flat = {_key(key): value for key, value in flatten(params).items()}
    texts = {k: v if isinstance(v, str) else json.dumps(v, default=str) for k, v in flat.items()}
    rows = [Param(key, text[:PARAM_LENGTH]) for key, text in texts.items()]
    for start in range(0, len(rows), PARAM_BATCH):
        client.log_batch(run_id, params=rows[start : start + PARAM_BATCH])


def _log_metrics(client: "MlflowClient", run_id: str, metrics: list[tuple[str, float, int, int]]) -> None:
    from mlflow.entities import Metric

    rows = [Metric(*metric) for metric in metrics]
    for start in range(0, len(rows), METRIC_BATCH):
        client.log_batch(run_id, metrics=rows[start : start + METRIC_BATCH])


def _log_inputs(client: "MlflowClient", run_id: str, inputs: Mapping[str, Path]) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    rows = []
    for name, path in inputs.items():
        # A dataset without schema or profile is what MLflow calls a MetaDataset.
        source = json.dumps({"uri": str(path)})
        dataset = Dataset(name=name, digest=content_digest(path), source_type="local", source=source)
        tags = [InputTag("mlflow.data.context", "input"), InputTag("dvc.path", str(path))]
        rows.append(DatasetInput(dataset, tags))
    if rows:
        client.log_inputs(run_id, rows)


def _key(name: str) -> str:
    """A name that MLflow takes: letters, digits and `_-./: `, at most 250 characters."""
    return re.sub(r"[^\w\-./: ]", "_", name, flags=re.ASCII)[:250]


def _warn(error: Exception) -> None:
    reason = (str(error).splitlines() or [""])[0][:300]
    log.warning("MLflow tracking failed; the stage goes on without it (%s: %s)", type(error).__name__, reason)
