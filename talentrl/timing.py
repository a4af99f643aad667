"""Where time goes: seconds by phase."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Sums the seconds of phases, which must not lie in each other."""

    def __init__(self) -> None:
        """Begin with no phase."""
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time inside as `phase`, also if it ends with an exception."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += time.perf_counter() - began

    def take(self) -> defaultdict[str, float]:
        """Seconds of each phase since the last call; 0 of one that did not happen."""
        taken, self._seconds = self._seconds, defaultdict(float)
        return taken
