"""Generation on transformers, made for multi-turn rollouts: what is already known is not computed again.

Keys and values of the last call's conversations are kept. A new prompt starts from the kept one with the longest
common prefix; equal prompts are prefilled once and fanned out; rows that finish are retired from the batch.
Padding comes from lengths, never from token values. Each row draws one uniform number a token from its own seed
(inverse transform), so what it samples does not depend on its neighbours, up to float32 rounding of batched
matrix products.
"""

import os.path
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

import torch
from transformers import Cache, PreTrainedModel, PreTrainedTokenizerBase

from talentrl.policy.engine import Generation, Sampling
from talentrl.policy.growing_cache import GrowingLayer
from talentrl.policy.model import check_vocabulary, end_tokens, multiplies_in_bfloat16
from talentrl.policy.prefix_tree import tree_log_probabilities

WORTH_SHARING = 16
"""Tokens that several prompts must share for a forward pass of their own."""


@dataclass
class _Kept:
    """Keys and values of a conversation's first `len(token_ids)` tokens, per layer (heads, tokens, size)."""

    token_ids: list[int]
    keys: list[torch.Tensor]
    values: list[torch.Tensor]


@dataclass
class _Row:
    """A conversation being continued."""

    index: int
    prompt: list[int]
    draws: random.Random
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stopped: bool = False


@dataclass
class _Batch:
    """Rows side by side: their cache and which of its columns hold a token of the row (B, columns)."""

    rows: list[_Row]
    cache: Cache
    mask: torch.Tensor
    next_logits: torch.Tensor


class TransformersEngine:
    """A `GenerationEngine` over one in-process model."""

    sync_seconds = 0.0  # the model that is trained is the one that samples

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch: int = 32) -> None:
        """Wrap `model`; at most `batch` conversations are decoded side by side.

        Raises:
            InputError: the tokenizer has tokens that the model does not know.
        """
        check_vocabulary(model, tokenizer)
        self.model = model
        self.tokenizer = tokenizer
        self.batch = batch
        self._bfloat16 = multiplies_in_bfloat16(model)
        self._kept: list[_Kept] = []
        self._end_ids = end_tokens(tokenizer, model.generation_config)

    def reset(self) -> None:
        """Forget kept keys and values. Call it whenever the model's weights have changed."""
        self._kept = []

    def generate(self, prompts: Sequence[list[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        """See `GenerationEngine.generate`."""
        rows = [
            _Row(i, list(ids), random.Random(seed)) for i, (ids, seed) in enumerate(zip(prompts, seeds, strict=True))
        ]
        # Autocast around all forward passes of a call, so that weights are converted once for them.
        with self._inference(), torch.autocast(self.model.device.type, torch.bfloat16, enabled=self._bfloat16):
            kept: list[_Kept] = []
            for start in range(0, len(rows), self.batch):
                batch = self._prefill(rows[start : start + self.batch], [*self._kept, *kept])
                kept += self._decode(batch, sampling)
            self._kept = kept
        return [Generation(row.token_ids, row.logprobs, row.stopped) for row in rows]

    def score(self, prompts: Sequence[list[int]], continuations: Sequence[list[int]]) -> list[list[float]]:
        """See `GenerationEngine.score`."""
        sequences = [p + c for p, c in zip(prompts, continuations, strict=True)]
        wanted = [range(len(p), len(p) + len(c)) for p, c in zip(prompts, continuations, strict=True)]
        scores: list[list[float]] = []
        with self._inference():
            for start in range(0, len(sequences), self.batch):
                part = slice(start, start + self.batch)
                logprobs, _ = tree_log_probabilities(self.model, sequences[part], wanted[part])
                scores += [values.tolist() for values in logprobs]
        return scores

    @contextmanager
    def _inference(self) -> Iterator[None]:
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.model.train(was_training)

    def _prefill(self, rows: list[_Row], known: list[_Kept]) -> _Batch:
        """Forward what is new in each distinct prompt, then fan out to the rows."""
        distinct = {tuple(row.prompt): row.prompt for row in rows}
        prompts = list(distinct.values())
        for prefixes in _shared_prefixes(prompts):
            if unknown := [prefix for prefix in prefixes if len(prefix) - _shared(prefix, known)[1] >= WORTH_SHARING]:
                _, cache, mask = self._extend(unknown, known)
                known = [*known, *_keep(unknown, cache, mask)]
        logits, cache, mask = self._extend(prompts, known)
        if len(prompts) == len(rows):
            return _Batch(rows, cache, mask, logits)
        place = {key: i for i, key in enumerate(distinct)}
        fan_out = torch.tensor([place[tuple(row.prompt)] for row in rows], device=mask.device)
        cache.batch_select_indices(fan_out)
        return _Batch(rows, cache, mask[fan_out], logits[fan_out])

    def _extend(self, prompts: list[list[int]], known: list[_Kept]) -> tuple[torch.Tensor, Cache, torch.Tensor]:
        """Forward the tokens of `prompts` that no kept conversation holds.

        Returns the logits after the last token (B, vocabulary), the cache, and its column mask (B, columns). The
        known part is padded on the left and the new part on the right, so every query has a column to attend to.
        """
        shared = [_shared(prompt, known) for prompt in prompts]
        past_lengths = [min(length, len(prompt) - 1) for (_, length), prompt in zip(shared, prompts, strict=True)]
        new = [prompt[length:] for prompt, length in zip(prompts, past_lengths, strict=True)]
        past, width = max(past_lengths), max(len(ids) for ids in new)
        device = self.model.device
        ids = torch.zeros(len(prompts), width, dtype=torch.long, device=device)
        positions = torch.zeros(len(prompts), width, dtype=torch.long, device=device)
        mask = torch.zeros(len(prompts), past + width, dtype=torch.long, device=device)
        for i, (tokens, length) in enumerate(zip(new, past_lengths, strict=True)):
            ids[i, : len(tokens)] = torch.tensor(tokens)
            # Columns of padding stay at position 0: beyond the last token there may be no position to learn.
            positions[i, : len(tokens)] = torch.arange(length, length + len(tokens))
            mask[i, past - length : past + len(tokens)] = 1
        cache = _assemble([kept for kept, _ in shared], past_lengths, past)
        last = torch.tensor([len(tokens) - 1 for tokens in new], device=device)
        return self._forward(ids, positions, mask, cache, last), cache, mask

    def _decode(self, batch: _Batch, sampling: Sampling) -> list[_Kept]:
        """Sample until every row has stopped; return what to keep of them."""
        kept: list[_Kept] = []
        for step in range(sampling.max_tokens):
            tokens = self._sample(batch, sampling)
            running = [i for i, row in enumerate(batch.rows) if not row.stopped]
            if step + 1 == sampling.max_tokens or not running:
                break
            if len(running) <= len(batch.rows) // 2:
                kept += self._retire(batch, running)
                tokens = tokens[running]
            positions = torch.tensor(
                [[len(row.prompt) + len(row.token_ids) - 1] for row in batch.rows], device=tokens.device
            )
            batch.mask = torch.cat([batch.mask, torch.ones_like(batch.mask[:, :1])], dim=1)
            last = torch.zeros_like(tokens)
            batch.next_logits = self._forward(tokens[:, None], positions, self._decoding_mask(batch), batch.cache, last)
        return kept + self._retire(batch, [])

    def _decoding_mask(self, batch: _Batch) -> torch.Tensor:
        """The mask of one query a row, (B, 1, 1, columns) where that is faster, else (B, columns).

        Without padding transformers drops a mask of two dimensions, and takes a kernel for grouped heads that is five
        times as slow on a CPU. One of four dimensions is taken as it is, so it has to be right for all layers.
        """
        windowed = getattr(self.model.config.get_text_config(), "sliding_window", None) is not None
        if batch.mask.device.type != "cpu" or windowed:
            return batch.mask
        return batch.mask[:, None, None].bool()

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor, cache: Cache, last: torch.Tensor
    ) -> torch.Tensor:
        """The logits (B, vocabulary) after column `last[i]` of each row i.

        They come from the model's own forward pass, since some architectures scale or cap what their output embeddings
        give; these see no other column, whose logits would take most of the memory.
        """

        def take_last(_: torch.nn.Module, inputs: tuple[torch.Tensor]) -> torch.Tensor:
            return inputs[0][torch.arange(len(last), device=last.device), last]

        hook = self.model.get_output_embeddings().register_forward_pre_hook(take_last)
        try:
            logits: torch.Tensor = self.model(
                input_ids=ids, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True
            ).logits
        finally:
            hook.remove()
        return logits

    def _sample(self, batch: _Batch, sampling: Sampling) -> torch.Tensor:
        """Draw each running row's next token (B,) and note whether the row has stopped."""
        logits = batch.next_logits.float()
        logprobs = torch.log_softmax(logits / (sampling.temperature or 1), dim=-1)
        if sampling.temperature == 0:
            tokens = logits.argmax(dim=-1)
        else:
            cumulative = logprobs.exp().cumsum(dim=-1, dtype=torch.float64)
            uniform = [[0.0 if row.stopped else row.draws.random()] for row in batch.rows]
            threshold = torch.tensor(uniform, dtype=torch.float64, device=logits.device) * cumulative[:, -1:]
            tokens = torch.searchsorted(cumulative, threshold, right=True).squeeze(1)
            tokens = tokens.clamp(max=logits.shape[-1] - 1)
        chosen = logprobs.gather(1, tokens[:, None]).squeeze(1).tolist()
        for row, token, logprob in zip(batch.rows, tokens.tolist(), chosen, strict=True):
            if row.stopped:
                continue
            row.token_ids.append(token)
            row.logprobs.append(logprob)
            text = self.tokenizer.decode(row.token_ids)
            row.stopped = token in self._end_ids or any(stop in text for stop in sampling.stop)
        return tokens

    def _retire(self, batch: _Batch, running: list[int]) -> list[_Kept]:
        """Take all rows but `running` out of the batch; return their keys and values.

        A stopped row was fed its own tokens again while it waited; only the columns of its conversation are
        kept, and the token sampled last was never fed.
        """
        gone = [i for i in range(len(batch.rows)) if i not in set(running)]
        conversations = [batch.rows[i].prompt + batch.rows[i].token_ids[:-1] for i in gone]
        kept = _keep(conversations, batch.cache, batch.mask, gone)
        if running:
            index = torch.tensor(running, device=batch.mask.device)
            batch.cache.batch_select_indices(index)
            batch.mask = batch.mask[index]
            batch.next_logits = batch.next_logits[index]
            batch.rows = [batch.rows[i] for i in running]
        return kept


def _shared_prefixes(prompts: list[list[int]]) -> Iterator[list[list[int]]]:
    """What several of these distinct prompts begin with: first what all share, then what those that go on alike do."""
    groups = [prompts]
    while groups := [group for group in groups if len(group) > 1]:
        prefixes = [list(os.path.commonprefix(group)) for group in groups]  # noqa: RUF071 (of lists, not of paths)
        yield prefixes
        groups = [
            list(part)
            for group, prefix in zip(groups, prefixes, strict=True)
            for _, part in groupby(sorted(group), key=itemgetter(slice(len(prefix) + 1)))
        ]


def _shared(prompt: list[int], known: list[_Kept]) -> tuple[_Kept | None, int]:
    """The kept conversation with the longest common prefix with `prompt`, and that prefix's length."""
    best, length = None, 0
    for kept in known:
        if kept.token_ids[: length + 1] != prompt[: length + 1]:
            continue
        common = len(os.path.commonprefix([kept.token_ids, prompt]))  # noqa: RUF071 (of lists, not of paths)
        if common > length:
            best, length = kept, common
    return best, length


def _assemble(sources: list[_Kept | None], lengths: list[int], width: int) -> Cache:
    """A cache of the first `lengths[i]` tokens of each source, padded on the left to `width`."""
    cache = Cache(layer_class_to_replicate=GrowingLayer)
    example = next((source for source in sources if source is not None), None)
    if width == 0 or example is None:
        return cache
    for layer, (keys, values) in enumerate(zip(example.keys, example.values, strict=True)):
        batch_keys = keys.new_zeros(len(sources), keys.shape[0], width, keys.shape[2])
        batch_values = values.new_zeros(len(sources), values.shape[0], width, values.shape[2])
        for i, (source, length) in enumerate(zip(sources, lengths, strict=True)):
            if source is not None and length:
                batch_keys[i, :, width - length :] = source.keys[layer][:, :length]
                batch_values[i, :, width - length :] = source.values[layer][:, :length]
        cache.update(batch_keys, batch_values, layer)
    return cache


def _keep(
    conversations: list[list[int]], cache: Cache, mask: torch.Tensor, rows: list[int] | None = None
) -> list[_Kept]:
    """Keys and values of `conversations`, which stand in `rows` of the cache (all rows by default)."""
    layers: list[Any] = list(cache.layers)
    kept = []
    for row, token_ids in zip(rows if rows is not None else range(len(conversations)), conversations, strict=True):
        columns = mask[row].nonzero().squeeze(1)[: len(token_ids)]
        keys = [layer.keys[row][:, columns] for layer in layers]
        values = [layer.values[row][:, columns] for layer in layers]
        kept.append(_Kept(token_ids, keys, values))
    return kept
