"""What all trainings ask of transformers alike."""

from pathlib import Path
from typing import Any

import torch

from talentrl.config import ModelSection, RlSection, SftSection
from talentrl.processes import process_count

REINFORCEMENT_SCHEDULE: dict[str, Any] = {
    "lr_scheduler_type": "cosine_warmup_with_min_lr",  # the others make no step of the first
    "lr_scheduler_kwargs": {"min_lr_rate": 0.1},
}
"""The learning rate of RL and of its replay: up during the warm-up, then down a cosine to a tenth."""


def shared_arguments(settings: SftSection | RlSection, model: ModelSection, seed: int, scratch: Path) -> dict[str, Any]:
    """Arguments of `TrainingArguments` and TRL's subclasses: seeds, checkpoints in `scratch`, every step logged."""
    return {
        "output_dir": str(scratch),
        "learning_rate": settings.learning_rate,
        "warmup_steps": settings.warmup,
        "seed": seed,
        "data_seed": seed,
        "save_steps": settings.save_steps,
        "save_total_limit": 1,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,  # a loss that is no number is to be seen
        "report_to": "none",
        # Without this, accelerate would let several processes without GPUs train apart.
        "use_cpu": process_count() > 1 and not torch.accelerator.is_available(),
        "bf16": False,
        "gradient_checkpointing": model.gradient_checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "dataloader_pin_memory": False,
    }
