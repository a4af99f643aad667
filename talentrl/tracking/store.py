"""The MLflow store: where it is, how runs are opened in it, and how each event of a run is written."""

import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping
from getpass import getuser
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlsplit

from filelock import FileLock

from talentrl import layout
from talentrl.errors import InputError
from talentrl.files import sha256
from talentrl.provenance import is_alive, provenance
from talentrl.tracking import registry
from talentrl.tracking.reasons import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

SQLITE = "sqlite:///"
PARAM_LENGTH = 6000  # MLflow's limits: characters of a param's value, then rows a request
PARAM_BATCH, METRIC_BATCH = 100, 1000
_PARENT = "mlflow.parentRunId"

_DEFAULTS = {  # where the user has not set them: quiet, and seconds instead of minutes of retries
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


class Opening(TypedDict):
    """What a run is opened with."""

    stage: str
    tags: dict[str, str]
    pipeline: str
    """Names the parent run, unless `parent` is its id."""
    parent: str | None
    start: int
    """Milliseconds since 1970."""


def tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, else the SQLite file `mlflow.db` in the working directory (for a stage, the root).

    The path of a SQLite file is made absolute.

    Raises:
        InputError: it names a folder.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}{layout.MLFLOW}"
    if urlsplit(uri).scheme in ("", "file") and not uri.startswith("databricks"):
        raise InputError(
            f"MLFLOW_TRACKING_URI is {redacted(uri)!r}, a folder, where MLflow no longer keeps runs; expected a "
            "database such as sqlite:///mlflow.db or the address of an MLflow server"
        )
    if uri.startswith(SQLITE):
        return SQLITE + str(Path(uri.removeprefix(SQLITE)).absolute())
    return uri


def experiment_name() -> str:
    """MLFLOW_EXPERIMENT_NAME, else `talentrl`."""
    return os.environ.get("MLFLOW_EXPERIMENT_NAME", "talentrl")


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one level: `{"a": {"b": 1}}` → `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def connect(uri: str) -> "MlflowClient":
    """A client of the store; where the user has not set how often and how long it tries, it gives up in seconds."""
    for key, value in _DEFAULTS.items():
        os.environ.setdefault(key, value)
    from mlflow import MlflowClient

    if not _is_served(uri):
        from mlflow.store.db import utils

        utils.MAX_RETRY_COUNT = 4  # attempts to reach a database, in 1 s; with MLflow's 10 they take 100
    # One warning of ours, not one a retry, and no traceback of the database's.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    return MlflowClient(tracking_uri=uri)


def open_run(uri: str, opening: Opening, journal: str) -> "tuple[MlflowClient, str, str]":
    """Create a run, and its parent if there is none; the client, the run's id and its parent's.

    A run that was opened with the same `journal` before is taken up again.
    """
    # The first process on a fresh SQLite store creates its tables, and the first stage creates the parent:
    # neither is atomic in MLflow.
    with _store_lock(uri):
        client = connect(uri)
        experiment = _experiment(client, uri)
        end_killed(client, experiment)
        parent_id = opening["parent"] or _parent(client, experiment, opening["pipeline"])
        client.update_run(parent_id, status="RUNNING")
        if found := client.search_runs([experiment], f"tags.`talentrl.journal` = '{journal}'", max_results=1):
            return client, found[0].info.run_id, parent_id
        tags = opening["tags"] | {_PARENT: parent_id, "talentrl.journal": journal}
        created = client.create_run(experiment, start_time=opening["start"], run_name=opening["stage"], tags=tags)
    return client, created.info.run_id, parent_id


def apply(client: "MlflowClient", run_id: str, parent_id: str, kind: str, values: Any) -> None:
    """Write one event (`talentrl.tracking.journal.Event`) of a run; doing so again changes nothing."""
    if kind == "params":
        _log_params(client, run_id, values)
    elif kind == "inputs":
        _log_inputs(client, run_id, values)
    elif kind == "metrics":
        _log_metrics(client, run_id, values)
    elif kind == "tag":
        client.set_tag(run_id, *values)
    elif kind == "artifact":
        client.log_artifact(run_id, values)
    elif kind == "model":
        registry.register(client, run_id, values)
    elif kind == "end":
        client.set_terminated(run_id, values[0], end_time=values[1])
        settle(client, parent_id)


def run_link(uri: str, pipeline: str) -> str | None:
    """The address at which a server shows the parent run of a pipeline (`talentrl.provenance`).

    None if `uri` is not a server's, or the pipeline has no run yet.
    """
    if urlsplit(uri).scheme not in ("http", "https"):
        return None
    client = connect(uri)
    experiment = client.get_experiment_by_name(experiment_name())
    where = f"tags.`talentrl.pipeline` = '{pipeline}'"
    found = client.search_runs([experiment.experiment_id], where, max_results=1) if experiment else []
    return (
        f"{uri.rstrip('/')}/#/experiments/{found[0].info.experiment_id}/runs/{found[0].info.run_id}" if found else None
    )


def end_killed(client: "MlflowClient", experiment: str) -> None:
    """End the runs whose process on this machine is gone, as FAILED."""
    for run in client.search_runs([experiment], "attributes.status = 'RUNNING'"):
        process = run.data.tags.get("talentrl.process")
        if process and not is_alive(process):
            client.set_terminated(run.info.run_id, "FAILED")
            settle(client, run.data.tags[_PARENT])


def _store_lock(uri: str) -> FileLock:
    folder = Path(tempfile.gettempdir()) / f"talentrl-{getattr(os, 'getuid', getuser)()}"
    folder.mkdir(exist_ok=True)
    return FileLock(folder / f"mlflow-{sha256(uri.encode())[:16]}.lock", timeout=300)


def _experiment(client: "MlflowClient", uri: str) -> str:
    name = experiment_name()
    if found := client.get_experiment_by_name(name):
        return found.experiment_id
    # Else a server decides where artifacts go.
    root = Path(uri.removeprefix(SQLITE)).parent if uri.startswith(SQLITE) else Path.cwd()
    return client.create_experiment(name, None if _is_served(uri) else (root / layout.MLFLOW_ARTIFACTS).as_uri())


def _is_served(uri: str) -> bool:
    return urlsplit(uri).scheme.startswith(("http", "databricks"))


def _parent(client: "MlflowClient", experiment: str, pipeline: str) -> str:
    where = f"tags.`talentrl.pipeline` = '{pipeline}'"
    if found := client.search_runs([experiment], where, max_results=1):
        return found[0].info.run_id
    tags = provenance() | {"talentrl.pipeline": pipeline}
    name = tags.get("sweep.row", "pipeline")
    return client.create_run(experiment, run_name=name, tags=tags).info.run_id


def settle(client: "MlflowClient", parent_id: str) -> None:
    """Give a parent what its stages imply: settings, figures, and a status.

    It is RUNNING while one of them runs, then FAILED if one failed.
    """
    parent = client.get_run(parent_id)
    stages = client.search_runs([parent.info.experiment_id], f"tags.`{_PARENT}` = '{parent_id}'")
    _sum_up(client, parent, [run for run in stages if run.info.status == "FINISHED"])
    statuses = {run.info.status for run in stages}
    if "RUNNING" not in statuses:
        client.set_terminated(parent_id, "FINISHED" if statuses == {"FINISHED"} else "FAILED")


def _sum_up(client: "MlflowClient", parent: "MlflowRun", stages: "list[MlflowRun]") -> None:
    """Copy the stages' settings and last figures to their parent, so that pipelines and rows compare by themselves.

    A figure is called STAGE/NAME and averaged over training seeds. `stages` begins with the newest.
    """
    params: dict[str, str] = {}
    figures: dict[str, dict[str, float]] = {}  # name, then seed
    for run in reversed(stages):  # a newer one overrides
        stage, seed = run.data.tags["dvc.stage"], run.data.tags.get("seed", "")
        params |= run.data.params
        for name, value in run.data.metrics.items():
            figures.setdefault(f"{stage}/{name.removeprefix(f'{stage}/')}", {})[seed] = value
    known = parent.data
    _log_params(client, parent.info.run_id, {key: text for key, text in params.items() if key not in known.params})
    means = {name: fmean(of_seed.values()) for name, of_seed in figures.items()}
    ended = max((run.info.end_time for run in stages), default=0)
    changed = [(name, mean, ended, 0) for name, mean in means.items() if known.metrics.get(name) != mean]
    _log_metrics(client, parent.info.run_id, changed)


def _log_params(client: "MlflowClient", run_id: str, params: Mapping[str, Any]) -> None:
    from mlflow.entities import Param

    texts = {_key(k): v if isinstance(v, str) else json.dumps(v, default=str) for k, v in params.items()}
    rows = [Param(key, text[:PARAM_LENGTH]) for key, text in texts.items()]
    for start in range(0, len(rows), PARAM_BATCH):
        client.log_batch(run_id, params=rows[start : start + PARAM_BATCH])


def _log_metrics(client: "MlflowClient", run_id: str, metrics: list[tuple[str, float, int, int]]) -> None:
    from mlflow.entities import Metric

    rows = [Metric(_key(name), value, time, step) for name, value, time, step in metrics]
    for start in range(0, len(rows), METRIC_BATCH):
        client.log_batch(run_id, metrics=rows[start : start + METRIC_BATCH])


def _log_inputs(client: "MlflowClient", run_id: str, inputs: list[tuple[str, str, str]]) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    rows = []
    for name, path, digest in inputs:
        # A dataset without schema or profile is what MLflow calls a MetaDataset.
        dataset = Dataset(name=name, digest=digest, source_type="local", source=json.dumps({"uri": path}))
        rows.append(DatasetInput(dataset, [InputTag("mlflow.data.context", "input"), InputTag("dvc.path", path)]))
    client.log_inputs(run_id, rows)


def _key(name: str) -> str:
    """A name that MLflow takes: letters, digits and `_-./: `, at most 250 characters."""
    return re.sub(r"[^\w\-./: ]", "_", name, flags=re.ASCII)[:250]
