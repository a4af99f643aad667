"""Tokenizers and random language models that are made in a moment and work like the real ones."""

from collections.abc import Sequence

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 300
ARCHITECTURES = ("llama", "qwen2", "qwen3", "gpt2", "gemma2", "granite", "cohere")  # the last three scale or cap logits

# Chat templates in the manner of well-known ones: name -> (template, special tokens, end token).
TEMPLATES = {
    "chatml": (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        ("<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
    ),
    # Qwen 2.5: a system turn of its own when none is given.
    "qwen2": (
        "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
    ),
    # Qwen 3: thoughts before the last question are taken out; who may not think opens with an empty thought.
    "qwen3": (
        "{% set past = namespace(end=0) %}"
        "{% for m in messages if m.role == 'user' %}{% set past.end = messages.index(m) %}{% endfor %}"
        "{% for m in messages %}{% set said = m.content.split('</think>')[-1].lstrip('\n') "
        "if m.role == 'assistant' and loop.index0 < past.end else m.content %}"
        "{{ '<|im_start|>' + m.role + '\n' + said + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
        "{% if enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}",
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
    ),
    # Llama 3: a start token, headers, the day in the system turn, trimmed contents, no line after the end.
    "llama3": (
        "{{ bos_token }}{% set day = date_string if date_string is defined else strftime_now('%d %b %Y') %}"
        "{% for m in messages %}"
        "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}"
        "{% if m.role == 'system' %}{{ 'Cutoff: December 2023\nDay: ' + day + '\n\n' }}{% endif %}"
        "{{ m.content | trim + '<|eot_id|>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "<|eot_id|>",
    ),
    # One token a delimiter, for layouts that a reader can follow.
    "plain": (
        "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '<end>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}",
        ("<system>", "<user>", "<assistant>", "<end>"),
        "<end>",
    ),
}


def byte_tokenizer(template: str = "chatml", words: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """One token a byte, one for each special token of the chat template, one for each of `words`."""
    text, specials, end = TEMPLATES[template]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    tokenizer.add_tokens([AddedToken(word, special=False, normalized=False) for word in words])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=text,
        bos_token=specials[0],
        eos_token=end,
        pad_token=end,
        additional_special_tokens=list(specials),
        model_max_length=4096,
    )


def word_tokenizer() -> PreTrainedTokenizerFast:
    """`VOCABULARY` words `w0` … with spaces between them; the last one is the end token."""
    vocabulary = {f"w{i}": i for i in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=f"w{VOCABULARY - 1}")


def tiny_model(architecture: str, positions: int = 256, seed: int = 0, head_size: int = 8) -> PreTrainedModel:
    """A random model with four attention heads whose most likely next token varies with its input."""
    torch.manual_seed(seed)
    end = {"eos_token_id": VOCABULARY - 1, "bos_token_id": 0, "pad_token_id": 0}
    if architecture == "gpt2":
        sizes = {"n_embd": 4 * head_size, "n_layer": 2, "n_head": 4, "n_positions": positions}
        config = GPT2Config(vocab_size=VOCABULARY, initializer_range=0.3, tie_word_embeddings=False, **sizes, **end)
        return GPT2LMHeadModel(config).eval()
    shared = {
        "vocab_size": VOCABULARY,
        "hidden_size": 4 * head_size,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": head_size,
        "max_position_embeddings": positions,
        "initializer_range": 0.3,
        **end,
    }
    if architecture == "llama":
        return LlamaForCausalLM(LlamaConfig(**shared)).eval()
    if architecture == "gemma2":
        return Gemma2ForCausalLM(Gemma2Config(final_logit_softcapping=3.0, **shared)).eval()
    del shared["head_dim"]
    if architecture == "granite":
        return GraniteForCausalLM(GraniteConfig(logits_scaling=4.0, **shared)).eval()
    if architecture == "cohere":
        return CohereForCausalLM(CohereConfig(logit_scale=0.25, **shared)).eval()
    if architecture == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**shared)).eval()
    return Qwen3ForCausalLM(Qwen3Config(head_dim=head_size, **shared)).eval()
