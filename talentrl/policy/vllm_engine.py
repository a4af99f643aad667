"""Generation by a vLLM server, which holds a copy of the model's weights.

The server gets the weights of the checkpoint; once the model in this process has been asked for, as training does, it
gets that model's weights whenever they have changed. Each row is a request of its own with its own seed. vLLM ends
a row at a closing tag by itself, includes the tag, and keeps what conversations share in its prefix cache.
"""

import tempfile
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from talentrl.config import Precision
from talentrl.errors import InputError
from talentrl.policy.engine import Generation, Sampling
from talentrl.policy.model import end_tokens, load_model
from talentrl.policy.trainable import save_weights
from talentrl.policy.vllm_server import RequestFailed, VllmServer

FIXED_TEXT = "A skill is a small procedure in plain text. Read the question, search, and answer it in a few words."
TOLERANCE = 0.1
"""Mean difference in log-probability (nats) on `FIXED_TEXT` between server and trainer; bfloat16 stays well below."""

# What a request leaves out, the server takes from its own defaults, which may come from the model's folder.
_PLAIN_SAMPLING = {
    **{"n": 1, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "ignore_eos": True, "skip_special_tokens": False},
    **{"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0},
}


class VllmEngine:
    """A `GenerationEngine` over a vLLM server, for the model in one checkpoint."""

    def __init__(
        self,
        server: VllmServer,
        checkpoint: Path,
        tokenizer: PreTrainedTokenizerBase,
        batch: int = 32,
        precision: Precision = "float32",
        scratch: Path | None = None,
    ) -> None:
        """Generate with `server` as the model in `checkpoint` does.

        At most `batch` requests are under way. `precision` is that of the model in this process. Changed weights
        pass through a folder in `scratch` that goes with the engine; it needs 4 bytes a parameter.
        """
        self.server = server
        self.checkpoint = checkpoint
        self.tokenizer = tokenizer
        self.batch = batch
        self._precision = precision
        self._scratch = scratch
        self._end_ids = sorted(end_tokens(tokenizer, _generation_settings(checkpoint)))
        self._changed = True
        self.sync_seconds = 0.0

    @cached_property
    def model(self) -> PreTrainedModel:
        """The model in this process; from its first use on, the server follows its weights."""
        return load_model(self.checkpoint, self._precision)

    def reset(self) -> None:
        """Hand the weights over again before the next use; what the server knows of the old ones is forgotten."""
        self._changed = True

    def generate(self, prompts: Sequence[list[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        """See `GenerationEngine.generate`.

        Raises:
            InputError: the server does not answer when the call begins, or its weights are not the model's. A server
                that stops later fails the rows that it owes.
        """
        request = {
            **_PLAIN_SAMPLING,
            **{"max_tokens": sampling.max_tokens, "temperature": sampling.temperature, "logprobs": 0},
            **{"stop": list(sampling.stop), "include_stop_str_in_output": True},
            **{"stop_token_ids": self._end_ids, "return_token_ids": True, "return_tokens_as_token_ids": True},
        }
        bodies = [
            {**request, "prompt": prompt, "seed": seed % 2**63} for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        return [_generation(choice) for choice in self._complete(bodies)]

    def score(self, prompts: Sequence[list[int]], continuations: Sequence[list[int]]) -> list[list[float]]:
        """See `GenerationEngine.score`. The server forwards each row whole: its prefix cache holds no scores.

        Raises:
            InputError: as `generate`, or the server refused a row.
        """
        request = {**_PLAIN_SAMPLING, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        rows = [(p, c) for p, c in zip(prompts, continuations, strict=True)]
        choices = iter(self._complete([{**request, "prompt": p + c} for p, c in rows if c]))
        return [_scores(next(choices), p, c) if c else [] for p, c in rows]

    def _complete(self, bodies: list[dict[str, Any]]) -> list[dict[str, Any] | RequestFailed]:
        if bodies and (self._changed or not self.server.has_weights()):
            began = time.perf_counter()
            self._hand_over()
            self.sync_seconds += time.perf_counter() - began
        return self.server.complete(bodies, self.batch)

    def _hand_over(self) -> None:
        if "model" not in self.__dict__:
            self.server.load(self.checkpoint)
        else:
            if self._scratch:
                self._scratch.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="vllm-", dir=self._scratch) as folder:
                save_weights(self.model, Path(folder))
                self.server.load(Path(folder))
            self._check_fixed_text()
        self._changed = False

    def _check_fixed_text(self) -> None:
        """Compare what server and trainer make of one text. Raises InputError if they are not the same model."""
        ids: list[int] = self.tokenizer.encode(FIXED_TEXT, add_special_tokens=False)[:32]
        body = {**_PLAIN_SAMPLING, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "prompt": ids}
        theirs = _scores(self.server.complete([body], 1)[0], ids[:1], ids[1:])
        ours = _fixed_scores(self.model, ids)
        difference = sum(abs(a - b) for a, b in zip(theirs, ours, strict=True)) / len(ours)
        if not difference < TOLERANCE:  # also NaN
            raise InputError(
                f"vllm.url: the server at {self.server.url} gives tokens other probabilities than the trained model, "
                f"found a mean difference of {difference:.3g} nats, expected less than {TOLERANCE}"
            )


def _generation(choice: dict[str, Any] | RequestFailed) -> Generation:
    if isinstance(choice, RequestFailed):
        return Generation([], [], stopped=False, failure=str(choice))
    return Generation(choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["finish_reason"] == "stop")


def _scores(choice: dict[str, Any] | RequestFailed, prompt: list[int], continuation: list[int]) -> list[float]:
    if isinstance(choice, RequestFailed):
        raise InputError(f"vllm.url: talents could not be scored: {choice}")
    found = choice["prompt_logprobs"][len(prompt) :]
    return [entry[str(token)]["logprob"] for entry, token in zip(found, continuation, strict=True)]


@torch.no_grad()
def _fixed_scores(model: PreTrainedModel, ids: list[int]) -> list[float]:
    """Log-probability of each token of `ids` but the first."""
    was_training = model.training
    model.eval()
    logits = model(torch.tensor([ids], device=model.device)).logits[0, :-1].float()
    model.train(was_training)
    wanted = torch.tensor(ids[1:], device=logits.device)
    scores: list[float] = logits.log_softmax(-1).gather(1, wanted[:, None]).squeeze(1).tolist()
    return scores


def _generation_settings(checkpoint: Path) -> GenerationConfig:
    try:
        return GenerationConfig.from_pretrained(checkpoint)
    except OSError:
        return GenerationConfig.from_model_config(AutoConfig.from_pretrained(checkpoint))
