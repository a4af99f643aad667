"""What runs show in Prefect's UI beside their logs: how far a long stage is, and where MLflow shows its numbers."""

import re
import time
from typing import cast
from uuid import UUID

from prefect import get_run_logger, runtime
from prefect.artifacts import create_link_artifact, create_progress_artifact, update_progress_artifact

from talentrl.provenance import flow_key
from talentrl.tracking import run_link, tracking_uri

SECONDS = 5.0  # between two updates


def artifact_key(*parts: str) -> str:
    """A key that Prefect takes: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


class Progress:
    """Takes the percentages of a stage's bars and shows them as the artifact `progress-STAGE`, one in `SECONDS`.

    A server that does not answer ends the showing, nothing else.
    """

    def __init__(self, stage: str) -> None:
        """Nothing is shown of a stage that has no bar."""
        self._stage = stage
        self._artifact: UUID | None = None
        self._next = 0.0

    def __call__(self, percentage: float) -> None:
        """Show it, unless the last one was shown a moment ago."""
        if time.monotonic() >= self._next:
            self._show(percentage)

    def done(self) -> None:
        """The stage has ended well."""
        if self._artifact is not None:
            self._show(100.0)

    def _show(self, percentage: float) -> None:
        try:
            if self._artifact is None:
                key = artifact_key("progress", self._stage)
                self._artifact = cast(UUID, create_progress_artifact(percentage, key, f"Progress of {self._stage}"))
            else:
                update_progress_artifact(self._artifact, percentage)
            self._next = time.monotonic() + SECONDS
        except Exception as error:
            get_run_logger().warning("Progress is not shown any more (%s: %s)", type(error).__name__, error)
            self._artifact, self._next = None, float("inf")


def link_to_mlflow(row: str | None = None) -> bool:
    """Show a link to the MLflow run of this flow run's stages, or of a sweep's row (SWEEP/ROW); whether it did.

    There is one only on an MLflow server, once a stage has run.
    """
    try:
        if link := run_link(tracking_uri(), flow_key(str(runtime.flow_run.id), row)):
            create_link_artifact(link, row or "MLflow run", artifact_key("mlflow", row or "run"))
        return bool(link)
    except Exception as error:
        get_run_logger().warning("No link to MLflow (%s: %s)", type(error).__name__, str(error).splitlines()[:1])
        return False
