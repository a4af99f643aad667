"""Which errors are taken for memory that ran out, and what each stage is told to lower."""

import pytest
import torch

from talentrl.memory import out_of_memory


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory.\nMore."), MemoryError()])
@pytest.mark.parametrize(
    ("stage", "settings"),
    [
        ("sft", ["gradient_checkpointing", "lora_rank", "sft.frozen_layers", "demos.forced_arms"]),
        ("rl", ["gradient_checkpointing", "lora_rank", "rl.frozen_layers", "rl.rollouts", "rollout.batch"]),
        ("evaluate", ["rollout.batch", "model.max_tokens"]),
    ],
)
def test_a_stage_is_told_its_own_settings(error, stage, settings):
    message = out_of_memory(error, stage)
    assert message.startswith("out of memory (") and "\n" not in message
    assert all(setting in message for setting in settings)
    assert ("frozen_layers" in message) == (stage in ("sft", "rl"))


def test_the_processors_allocator_is_recognised():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert "DefaultCPUAllocator" in out_of_memory(caught.value, "index")


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), ValueError("out of memory"), KeyboardInterrupt()])
def test_other_errors_are_not(error):
    assert out_of_memory(error, "rl") is None
