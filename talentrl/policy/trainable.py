"""Which weights training changes."""

from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from talentrl.config import ModelSection
from talentrl.errors import InputError


def set_trainable(model: PreTrainedModel, settings: ModelSection, frozen_layers: int, seed: int) -> Any:
    """The model to train: `model` itself, or `model` with LoRA adapters as a `PeftModel`, its own weights frozen.

    Adapters (Hu et al. 2021) stand beside all linear layers of the transformer layers that are not frozen. They start
    as nothing (one of their two factors is zero, the other random by `seed`), so the reference of a KL penalty is the
    model without them.

    Raises:
        InputError: the model has no more than `frozen_layers` layers.
    """
    _freeze_lower_layers(model, frozen_layers)
    if settings.lora_rank == 0:
        return model
    from peft import LoraConfig, get_peft_model

    frozen = "|".join(str(layer) for layer in range(frozen_layers))
    torch.manual_seed(seed)
    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        target_modules="all-linear",
        exclude_modules=rf".*\.layers\.({frozen})\..*" if frozen_layers else None,
    )
    return get_peft_model(model, config)


def save_weights(model: Any, folder: Path) -> None:
    """Write the weights that `model` computes with to `folder`, LoRA adapters added in; `model` stays as it is."""
    if not hasattr(model, "peft_config"):
        model.save_pretrained(folder)
        return
    from peft.tuners.lora import LoraLayer

    whole = model.get_base_model()
    state = {name.replace(".base_layer.", "."): value for name, value in whole.state_dict().items()}
    adapted: list[tuple[str, Any]] = [
        (n, module) for n, module in whole.named_modules() if isinstance(module, LoraLayer)
    ]
    with torch.no_grad():
        state |= {f"{name}.weight": layer.weight + layer.get_delta_weight("default") for name, layer in adapted}
    whole.save_pretrained(folder, state_dict={name: value for name, value in state.items() if ".lora_" not in name})


def _freeze_lower_layers(model: PreTrainedModel, count: int) -> None:
    """Stop gradients in the embeddings and the lowest `count` transformer layers, for any model with `layers`.

    Tied output embeddings are frozen with the input ones.
    """
    if count == 0:
        return
    layers: Any = model.get_decoder().layers
    if count >= len(layers):
        raise InputError(f"frozen_layers: found {count}, expected fewer than the model's {len(layers)} layers")
    for module in (model.get_input_embeddings(), *layers[:count]):
        module.requires_grad_(False)
