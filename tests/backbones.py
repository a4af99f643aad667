"""Random models in the image of the published backbones: their architecture, the rules of their chat templates,
their end tokens and the settings that they bring for generation; three thin layers."""

from pathlib import Path
from typing import Any

import torch
from tiny_models import byte_tokenizer
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig, Qwen2Config, Qwen3Config

SIZES: dict[str, Any] = {
    "num_hidden_layers": 3,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "initializer_range": 0.05,
    "vocab_size": 320,  # more rows than the tokenizer has tokens, as Qwen's
}
ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}
# profile: chat template, configuration, further end tokens
BACKBONES: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "qwen2.5-7b": ("qwen2", Qwen2Config(**SIZES), ("<|endoftext|>",)),
    "qwen3-8b": ("qwen3", Qwen3Config(head_dim=8, **SIZES), ("<|endoftext|>",)),
    "llama-3.1-8b": (
        "llama3",
        LlamaConfig(rope_parameters=ROPE, **SIZES),
        ("<|end_header_id|>",),
    ),
}
# The sizes of the published checkpoints, from their config.json.
PUBLISHED: dict[str, Any] = {
    "qwen2.5-7b": Qwen2Config(
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        vocab_size=152064,
        tie_word_embeddings=False,
    ),
    "qwen3-8b": Qwen3Config(
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        vocab_size=151936,
        tie_word_embeddings=False,
    ),
    "llama-3.1-8b": LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        tie_word_embeddings=False,
    ),
}


def save_backbone(profile: str, folder: Path) -> None:
    """Write the random model of a backbone's `profile`, and its tokenizer, to `folder`."""
    template, config, ends = BACKBONES[profile]
    tokenizer = byte_tokenizer(template, ("<think>", "</think>") if template == "qwen3" else ())
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.6,
        top_p=0.8,
        eos_token_id=[tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(list(ends))],
        pad_token_id=tokenizer.pad_token_id,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
