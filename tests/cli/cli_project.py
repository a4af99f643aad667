"""A project small enough to run the command on: a bank of two talents, a random byte-level Llama, four passages."""

import subprocess
import sys
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

REPOSITORY = Path(__file__).parents[2]

SKILLS = {"short-query": "Keep queries short.", "copy-answer": "Copy the [bold]answer[/bold] from the passage."}
TALENTS = {
    "lookup": ("One fact about one thing.", "short-query: 1.0\n  copy-answer: 0.5"),
    "verify": ("Is a claim true.", "copy-answer: 0.8"),
}
PARAMS = """\
# a comment that stays
seed: 3
model:
  max_tokens: 3000
bank:
  path: bank
retrieval:
  prior_weight: 2.0
  skills: 2
rollout:
  turns: 3
  routing_tokens: 8
  turn_tokens: 8
"""


def run_command(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run `talentrl` in a process of its own, in the current directory; `code` runs before it."""
    program = f"{code}\nfrom talentrl.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)


def write_bank(folder: Path) -> None:
    """The bank's pages under `folder`."""
    for id, body in SKILLS.items():
        _write(folder / "skills" / id / "SKILL.md", f"---\nname: {id}\ndescription: About {id}.\n---\n\n{body}\n")
    for id, (description, weights) in TALENTS.items():
        page = f"---\nname: {id}\ndescription: {description}\nskills:\n  {weights}\n---\n\nStrategy of {id}.\n"
        _write(folder / "talents" / id / "TALENT.md", page)


def write_passages(folder: Path) -> None:
    """A task set without tasks."""
    from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, TASK_SCHEMA, TaskSet

    facts = {"Peru": "Lima", "Chile": "Santiago", "Kenya": "Nairobi", "Fiji": "Suva"}
    rows = [(country, country, f"{city} is the capital of {country}.") for country, city in facts.items()]
    TaskSet(pl.DataFrame(schema=TASK_SCHEMA), pl.DataFrame(rows, PASSAGE_SCHEMA, orient="row")).write(folder)


def save_model(folder: Path) -> None:
    """A random Llama of 260 tokens, one a byte, with a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|start|>", "<|end|>"])
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>", chat_template=template
    )
    wrapped.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(wrapped), max_position_embeddings=4096, **sizes)
    LlamaForCausalLM(config).save_pretrained(folder)


class HashingEncoder:
    """Counts of hashed words: an encoder without weights."""

    dimension = 16
    fingerprint = "hashing-cli"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.full((len(texts), self.dimension), 0.1, dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().replace("?", "").replace(".", "").split():
                row[zlib.crc32(word.encode()) % self.dimension] += 1
            row /= np.linalg.norm(row)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode(texts)


def lines(text: str) -> list[str]:
    """The lines of `text` without table borders and surplus space."""
    return [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]


def holds(text: str, words: Iterable[str]) -> bool:
    """Whether `text`, however it is wrapped, holds all `words`."""
    flat = " ".join(" ".join(lines(text)).split())
    return all(word in flat for word in words)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
