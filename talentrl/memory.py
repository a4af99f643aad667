"""What to say when a stage ran out of memory: which settings to lower."""

import sys

_GENERATION = ("a smaller rollout.batch", "a smaller model.max_tokens")
_TRAINING = ("model.gradient_checkpointing: true", "a model.lora_rank above 0", "a higher {}.frozen_layers")
_SETTINGS = {
    "sft": (*(setting.format("sft") for setting in _TRAINING), "a smaller demos.forced_arms"),
    "rl": (*(setting.format("rl") for setting in _TRAINING), "a smaller rl.arms or rl.rollouts", *_GENERATION),
}
"""What takes less memory in stages that train; in the others it is generation that takes most."""


def out_of_memory(error: BaseException, stage: str) -> str | None:
    """One line for an `error` that says that memory ran out in `stage`; None for any other error.

    On the GPU it is PyTorch's own class, on the CPU a RuntimeError of its allocator or Python's MemoryError. A kernel
    that kills the process for the memory of the machine leaves no error: exit code 137.
    """
    torch = sys.modules.get("torch")
    device = torch is not None and isinstance(error, torch.OutOfMemoryError)
    processor = isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    if not (device or processor or isinstance(error, MemoryError)):
        return None
    reason = (str(error).strip().splitlines() or ["none is left"])[0]
    return f"out of memory ({reason}); in params.yaml, take {' or '.join(_SETTINGS.get(stage, _GENERATION))}"
