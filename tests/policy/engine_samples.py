"""Prompts, naive decoding and comparison for the tests of generation engines."""

from typing import Any

import pytest
import torch
from tiny_models import VOCABULARY, word_tokenizer

from talentrl.policy.engine import Generation

TOKENIZER = word_tokenizer()
TOKENIZER.chat_template = "{{ messages[0].content }}"  # a model folder needs one
END = VOCABULARY - 1
STOP = ("1 w", "w77")
# In place of the engine's own text, whose words this tokenizer does not know: all would be the padding token, on which
# all models agree.
FIXED_WORDS = " ".join(f"w{i}" for i in range(1, 30))


def ragged_prompts(draw, count=6):
    """Prompts of different length with a common start, the last one equal to the first."""
    start = some_tokens(draw, 20)
    prompts = [start + some_tokens(draw, draw.randrange(1, 15)) for _ in range(count)]
    return [*prompts, list(prompts[0])]


def some_tokens(draw, count):
    return [draw.randrange(VOCABULARY - 1) for _ in range(count)]


@torch.no_grad()
def decode_naively(model, prompt, sampling):
    """Greedy decoding, the whole conversation forwarded for every token."""
    ids: list[int] = []
    logprobs: list[float] = []
    stopped = False
    while len(ids) < sampling.max_tokens and not stopped:
        row = torch.log_softmax(model(torch.tensor([prompt + ids])).logits[0, -1].float(), dim=-1)
        ids.append(int(row.argmax()))
        logprobs.append(float(row.max()))
        stopped = ids[-1] == END or any(tag in TOKENIZER.decode(ids) for tag in sampling.stop)
    return Generation(ids, logprobs, stopped)


def assert_same(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    assert [turn.failure for turn in found] == [""] * len(expected)
    assert [turn.token_ids for turn in found] == [turn.token_ids for turn in expected]
    assert [turn.stopped for turn in found] == [turn.stopped for turn in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=tolerance)
