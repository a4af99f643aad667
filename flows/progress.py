"""Progress artifacts: how far a long stage is, as its progress bar says, in Prefect's UI."""

import re
import time
from typing import cast
from uuid import UUID

from prefect import get_run_logger
from prefect.artifacts import create_progress_artifact, update_progress_artifact

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
