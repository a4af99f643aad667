"""What watches a training run, and stops it when it has gone wrong.

A step is logged before it is saved, so a step that stops the run is never checkpointed.
"""

import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from talentrl.errors import TrainingStopped
from talentrl.learning.resuming import newest_checkpoint

_EXPECTED = 20.0
"""Full returns that the steps which are judged should have earned."""
_LOST = 0.1
"""A collapsed run earns less than this share of what it did."""
_MISMATCH = 0.1
"""Nats by which trainer and sampler may differ about a token on average. On 561 sampled tokens of the shipped model,
rounding made 7e-7 in float32, and 0.006 between float32 and bfloat16."""


class StepMetrics(TrainerCallback):
    """Passes each step's numbers on, and stops a run whose loss or gradient is no number; its last checkpoint stays."""

    def __init__(self, log: Callable[[dict[str, float], int], None]) -> None:
        """Call `log(metrics, step)` for each logged step."""
        self._log = log

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """See TrainerCallback. Raises TrainingStopped."""
        numbers = {k: float(v) for k, v in (logs or {}).items() if isinstance(v, int | float)}
        self._log(numbers, state.global_step)
        for name, number in numbers.items():
            if name.rpartition("/")[2] in ("loss", "grad_norm") and not math.isfinite(number):
                folder = Path(args.output_dir)  # replay's lies in that of the online steps
                good = newest_checkpoint(folder) or newest_checkpoint(folder.parent)
                raise stopped(state, f"{name} is {number}", good)


class CollapseMonitor(TrainerCallback):
    """Stops a reinforcement run whose rollouts no longer earn anything, or are not the trainer's own.

    Of the checkpoints it keeps the newest, to resume from, and the last good one: the newest that still earned at
    least half of the run's mean return in the steps after it. It holds no state but the trainer's log history, so a
    resumed run is judged like an uninterrupted one.
    """

    def __init__(self, tasks: int) -> None:
        """Judge steps of `tasks` tasks."""
        self._tasks = tasks

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """See TrainerCallback. Raises TrainingStopped."""
        difference = (logs or {}).get("sampling/sampling_logp_difference/mean") or 0.0
        if difference > _MISMATCH:
            reason = f"log-probabilities of trainer and sampler differ by {difference:.2f} nats a token on average"
            raise stopped(state, reason, self._last_good(args, state))
        returns = list(_returns(state).values())
        if "loss" in (logs or {}) and (window := collapsed(returns, self._tasks)):
            reason = (
                f"mean return of the last {window} steps is {fmean(returns[-window:]):.3f}, was {fmean(returns):.3f}"
            )
            raise stopped(state, reason, self._last_good(args, state))

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """See TrainerCallback: remove all but two checkpoints."""
        kept = {newest_checkpoint(Path(args.output_dir)), self._last_good(args, state)}
        for folder in Path(args.output_dir).glob("checkpoint-*"):
            if folder not in kept:
                shutil.rmtree(folder)

    def _last_good(self, args: Any, state: TrainerState) -> Path | None:
        folders = {int(folder.name.rpartition("-")[2]): folder for folder in Path(args.output_dir).glob("checkpoint-*")}
        returns = _returns(state)
        usual = fmean(returns.values()) if returns else 0.0
        until = state.global_step
        for step in sorted(folders, reverse=True):
            after = [value for at, value in returns.items() if step < at <= until]
            if after and fmean(after) >= usual / 2:
                return folders[step]
            until = step
        return None


def collapsed(returns: Sequence[float], tasks: int) -> int:
    """The number of newest steps that earned less than a tenth of the mean of all steps; 0 without a collapse.

    It looks at as many steps as should have earned 20 full returns, at their mean so far, and waits until there are
    as many before. Tasks are independent and their returns in [0, 1], so a run that is as good as its mean does this
    by chance in at most 2 of a million steps (Chernoff's bound, exp(−20 (1 − 0.1 + 0.1 ln 0.1)) = 1.5e-6). A run that
    earns little takes long to be judged, and one that has never earned anything is not.

    Args:
        returns: the mean return of each step, oldest first.
        tasks: the tasks of a step.
    """
    usual = fmean(returns) if returns else 0.0
    if usual == 0:
        return 0
    window = math.ceil(_EXPECTED / (tasks * usual))
    return window if len(returns) >= 2 * window and fmean(returns[-window:]) < _LOST * usual else 0


def stopped(state: TrainerState, reason: str, good: Path | None) -> TrainingStopped:
    """The error that ends a run at its present step."""
    kept = f"the last good checkpoint is {good}" if good else "there is no good checkpoint yet"
    return TrainingStopped(f"step {state.global_step}: {reason}; training stopped, {kept}")


def _returns(state: TrainerState) -> dict[int, float]:
    """The mean return of each step (from 1): what the weights of the step before earned."""
    return {int(entry["step"]): entry["return"] for entry in state.log_history if entry.get("return") is not None}
