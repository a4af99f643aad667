"""What could not be sent to MLflow: one JSON-lines file a run, which `talentrl track replay` sends and removes.

The first line says how to find or open the run, each other one is an event of it, in order. Sending an event again
changes nothing in MLflow (a metric is one by name, step, time and value), so a replay that is cut short may be
repeated.
"""

import errno
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from talentrl import layout
from talentrl.errors import InputError

Event = tuple[str, Any]
"""What happened (one of the kinds that `talentrl.tracking.store.apply` writes) and its values, which JSON can hold."""


class Journal:
    """The events of one run that wait to be sent; a file from the first one on."""

    def __init__(self, path: Path | None = None) -> None:
        """The journal in `path`, or a new one in the project."""
        self.path = path or layout.TRACKING / f"{uuid.uuid4().hex}.jsonl"
        self.waiting: list[str] = []
        """Lines that a full disk did not take yet."""

    @property
    def name(self) -> str:
        """Tells the run apart from all others, also where it could not be opened yet."""
        return self.path.stem

    def write(self, kind: str, values: Any) -> None:
        """Append an event, and before it those that a full disk did not take.

        Raises:
            OSError: the disk is full again; the file is as it was, and the event waits.
        """
        self.waiting.append(json.dumps([kind, values]) + "\n")
        data = "".join(self.waiting).encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            end, written = file.tell(), 0
            try:
                written = file.write(data)
            finally:
                if written < len(data):  # no half a line, to which the next one would be appended
                    file.truncate(end)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self.waiting.clear()

    def read(self) -> Iterator[Event]:
        """The events so far; none if nothing waits. A last line that was cut short by a kill is left out.

        Raises:
            InputError: another line is not an event.
        """
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.is_file() else []
        lines += self.waiting
        for number, line in enumerate(lines, start=1):
            try:
                kind, values = json.loads(line)
            except ValueError as error:
                if number == len(lines):
                    return
                raise InputError(f"{self.path}:{number}: expected an event of a run, found {line[:80]!r}") from error
            yield kind, values

    def remove(self) -> None:
        """Forget what was sent."""
        self.path.unlink(missing_ok=True)
        self.waiting.clear()
