"""Training that, killed at any moment and started again, ends where an uninterrupted run does.

Checkpoints hold weights, optimiser and random state. Two things are missing from them: the order of the examples
in a later epoch, which is therefore a function of the seed and the epoch alone, and whether they are whole.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Sampler
from transformers import Trainer, TrainerState

from talentrl.files import sha256
from talentrl.processes import is_first_process

_STATE = "trainer_state.json"


class EpochOrder(Sampler[int]):
    """The order of another sampler, with its draws determined by the seed and the epoch."""

    def __init__(self, sampler: Any, seed: int) -> None:
        """Take over `sampler`, which draws from its attribute `generator`."""
        self._sampler = sampler
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch is next; trainers do."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self._sampler.generator = torch.Generator().manual_seed(self._seed + self._epoch)
        return iter(self._sampler)

    def __len__(self) -> int:
        return len(self._sampler)


def scratch_folder(root: Path, name: str, *inputs: str) -> Path:
    """Where the run `name` keeps its checkpoints, keyed by what it trains on and with.

    A run that was killed and comes back with other settings or data starts afresh: checkpoints of `name` for
    other `inputs` are removed.
    """
    folder = root / f"{name}-{sha256(chr(10).join(inputs).encode())[:12]}"
    for other in root.glob(f"{name}-*") if is_first_process() else ():
        if other != folder:
            shutil.rmtree(other)
    return folder


def newest_checkpoint(scratch: Path) -> Path | None:
    """The newest checkpoint in `scratch` that was written to its end; None if there is none."""
    # The trainer's state is written last: a folder without it was cut short by a kill.
    whole = [path.parent for path in scratch.glob(f"checkpoint-*/{_STATE}")]
    return max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)


def train_or_resume(trainer: Trainer, scratch: Path) -> None:
    """Train to the end, from the newest whole checkpoint in `scratch` if there is one."""
    checkpoint = newest_checkpoint(scratch)
    if checkpoint is None:
        trainer.train()
        return
    state = TrainerState.load_from_json(str(checkpoint / _STATE))
    if state.global_step < state.max_steps:
        trainer.train(resume_from_checkpoint=str(checkpoint))
    else:  # killed after the last step: `train` would take one more
        trainer._load_from_checkpoint(str(checkpoint))
        trainer.state = state
