"""What watches a training run."""

import math
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState


class StepMetrics(TrainerCallback):
    """Passes each step's numbers on, and stops a run whose loss or gradient is no number; its last checkpoint stays."""

    def __init__(self, log: Callable[[dict[str, float], int], None]) -> None:
        """Call `log(metrics, step)` for each logged step."""
        self._log = log

    def on_log(
        self,
        args: Any,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """See TrainerCallback."""
        numbers = {k: float(v) for k, v in (logs or {}).items() if isinstance(v, int | float)}
        self._log(numbers, state.global_step)
        for name, number in numbers.items():
            if name.rpartition("/")[2] in ("loss", "grad_norm") and not math.isfinite(number):
                raise FloatingPointError(f"step {state.global_step}: {name} is {number}; training stopped")
