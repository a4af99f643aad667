"""Checkpoints in MLflow's model registry, all under one name.

A version is a description: its stage and seed, its signature, and where DVC has the bytes (path and digest), which
are not copied. The alias `candidate` is on the version that was trained last; `champion` moves only by
`talentrl promote`.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.logged_model import LoggedModel
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

MODEL = "talentrl-router"
CANDIDATE, CHAMPION = "candidate", "champion"


def register(client: "MlflowClient", run_id: str, tags: Mapping[str, str]) -> None:
    """Make a version of what a run trained, unless the run has one; it becomes the candidate if it is the newest.

    `tags` are those of the version: `stage`, `seed`, `dvc.path`, `dvc.md5` and `trained` (milliseconds since 1970).
    Each step is left out if it was done before, so that one that was cut short may be repeated.
    """
    if not client.search_registered_models(f"name = '{MODEL}'", max_results=1):
        _create_model(client)
    found = client.search_model_versions(f"name = '{MODEL}' and run_id = '{run_id}'")
    version = found[0] if found else _create_version(client, run_id, tags)
    newest = version_at(client, CANDIDATE)
    if newest is None or int(newest.tags.get("trained", 0)) <= int(tags["trained"]):
        client.set_registered_model_alias(MODEL, CANDIDATE, version.version)


def version_at(client: "MlflowClient", alias: str) -> "ModelVersion | None":
    """The version that an alias is on, if any."""
    found = client.search_registered_models(f"name = '{MODEL}'", max_results=1)
    number = found[0].aliases.get(alias) if found else None
    return client.get_model_version(MODEL, number) if number is not None else None


def promote(client: "MlflowClient", version: str, evidence: Mapping[str, Any]) -> None:
    """Move the alias `champion` to `version`, and keep the figures that it rests on as the version's tags."""
    for key, value in evidence.items():
        client.set_model_version_tag(MODEL, version, f"promotion.{key}", str(value))
    client.set_registered_model_alias(MODEL, CHAMPION, version)


def _create_model(client: "MlflowClient") -> None:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(MODEL, description="Routers; DVC keeps the weights (tags dvc.path and dvc.md5).")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":  # else another process was faster
            raise


def _create_version(client: "MlflowClient", run_id: str, tags: Mapping[str, str]) -> "ModelVersion":
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus

    run = client.get_run(run_id)
    experiment = run.info.experiment_id
    logged = client.search_logged_models([experiment], f"source_run_id = '{run_id}'")
    model = logged[0] if logged else client.create_logged_model(experiment, MODEL, run_id, {**tags})
    if model.status != LoggedModelStatus.READY:
        _describe(client, model, tags)
        if not (run.outputs and run.outputs.model_outputs):
            client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    return client.create_model_version(
        MODEL, model.model_uri, run_id, {**tags}, model_id=model.model_id, await_creation_for=0
    )


def _describe(client: "MlflowClient", model: "LoggedModel", tags: Mapping[str, str]) -> None:
    """Write the model's MLmodel file, which holds its signature."""
    from mlflow.models import Model

    where = {"path": tags["dvc.path"], "md5": tags["dvc.md5"]}
    description = Model(
        run_id=model.source_run_id, model_id=model.model_id, signature=_signature(), flavors={"dvc": where}
    )
    with tempfile.TemporaryDirectory() as folder:
        description.save(str(Path(folder) / "MLmodel"))
        client.log_model_artifacts(model.model_id, folder)


def _signature() -> "ModelSignature":
    """Messages in, text out."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import Array, Object, Property

    message = Object([Property("role", DataType.string), Property("content", DataType.string)])
    return ModelSignature(
        inputs=Schema([ColSpec(Array(message), "messages")]), outputs=Schema([ColSpec(DataType.string, "text")])
    )
