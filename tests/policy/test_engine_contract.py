"""The contract of generation engines: equal to naive decoding, whatever the batch. Each engine must pass."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from engine_samples import STOP, TOKENIZER, assert_same, decode_naively, ragged_prompts, some_tokens
from tiny_models import ARCHITECTURES, tiny_model

from talentrl.policy.engine import Generation, Sampling, TrainableEngine
from talentrl.policy.model import load_model
from talentrl.policy.transformers_engine import TransformersEngine
from talentrl.policy.vllm_engine import VllmEngine
from talentrl.policy.vllm_server import VllmServer


@dataclass
class Subject:
    """An engine under test, and the model that it is to decode as."""

    model: Any
    engine: Callable[..., TrainableEngine]
    """Makes one for a batch size; each has a model of its own, equal to `model`."""
    tolerance: float
    """Of log-probabilities."""
    draws: int
    """Enough to tell distributions apart; over HTTP each costs more."""


@pytest.fixture(
    scope="module",
    params=[
        *((TransformersEngine, name) for name in ARCHITECTURES),
        *(pytest.param((VllmEngine, name), marks=pytest.mark.vllm) for name in ("llama", "qwen3")),
    ],
    ids=lambda param: f"{param[0].__name__}-{param[1]}",
)
def subject(request, tmp_path_factory):
    kind, architecture = request.param
    folder = tmp_path_factory.mktemp(architecture)
    # vLLM has attention for a CPU from this size of a head on.
    model = tiny_model(architecture, head_size=32 if kind is VllmEngine else 8)
    model.save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    if kind is TransformersEngine:
        yield Subject(model, lambda batch=4: TransformersEngine(load_model(folder), TOKENIZER, batch), 1e-4, 4000)
        return
    server = request.getfixturevalue("serve_vllm")(folder)

    def engine(batch=4):
        return VllmEngine(VllmServer.open(server.url, 300, folder, 256), folder, TOKENIZER, batch)

    yield Subject(model, engine, 1e-3, 1000)
    server.stop()


def test_greedy_turns_of_growing_conversations_equal_naive_decoding(subject):
    draw = random.Random(1)
    conversations = ragged_prompts(draw)
    ours = subject.engine()
    sampling = Sampling(9, STOP)
    ends: Counter[bool] = Counter()
    for _ in range(4):
        turns = ours.generate(conversations, sampling, [0] * len(conversations))
        assert_same(turns, [decode_naively(subject.model, ids, sampling) for ids in conversations], subject.tolerance)
        ends.update(turn.stopped for turn in turns)
        conversations = [
            ids + turn.token_ids + some_tokens(draw, draw.randrange(1, 9))
            for ids, turn in zip(conversations, turns, strict=True)
        ]
        draw.shuffle(conversations)
        conversations = conversations[: max(3, len(conversations) - 1)]
    assert len(ends) == 2, "some turns must stop and some must reach the limit"


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_results_depend_neither_on_batch_nor_on_order(subject, temperature):
    """No more than rounding: far less than these models' tokens differ by."""
    prompts = ragged_prompts(random.Random(2))
    seeds = list(range(len(prompts)))
    sampling = Sampling(8, STOP, temperature)
    expected = [subject.engine(1).generate([p], sampling, [seed])[0] for p, seed in zip(prompts, seeds, strict=True)]
    for batch in (1, 4, 7):
        assert_same(subject.engine(batch).generate(prompts, sampling, seeds), expected, subject.tolerance)
    order = random.Random(3).sample(seeds, len(seeds))
    shuffled = subject.engine(4).generate([prompts[i] for i in order], sampling, [seeds[i] for i in order])
    assert_same([shuffled[order.index(i)] for i in seeds], expected, subject.tolerance)


def test_sampled_conversations_do_not_depend_on_what_the_engine_kept(subject):
    draw = random.Random(4)
    conversations = ragged_prompts(draw, 3)
    ours = subject.engine()
    sampling = Sampling(6, STOP, 1.0)
    for turn in range(3):
        seeds = [turn * 10 + i for i in range(len(conversations))]
        turns = ours.generate(conversations, sampling, seeds)
        assert_same(turns, subject.engine().generate(conversations, sampling, seeds), subject.tolerance)
        conversations = [c + t.token_ids + some_tokens(draw, 4) for c, t in zip(conversations, turns, strict=True)]


def test_same_seed_same_turn_other_seed_other_turn(subject):
    prompt = some_tokens(random.Random(5), 12)
    turns = subject.engine().generate([prompt] * 4, Sampling(12, (), 1.0), [7, 7, 8, 2**40])
    assert turns[0].token_ids == turns[1].token_ids
    assert len({tuple(turn.token_ids) for turn in turns}) == 3


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_tokens_are_sampled_from_the_models_distribution(subject, temperature):
    prompt, draws = some_tokens(random.Random(6), 12), subject.draws
    turns = subject.engine(256).generate([prompt] * draws, Sampling(1, (), temperature), range(draws))
    with torch.no_grad():
        logits = subject.model(torch.tensor([prompt])).logits[0, -1].double()
    probabilities = torch.softmax(logits / temperature, dim=-1)
    counts = Counter(turn.token_ids[0] for turn in turns)
    for token in probabilities.topk(10).indices.tolist():
        p = float(probabilities[token])
        assert abs(counts[token] / draws - p) < 4 * (p * (1 - p) / draws) ** 0.5
    for turn in turns[:20]:
        expected = [float(probabilities[turn.token_ids[0]].log())]
        assert turn.logprobs == pytest.approx(expected, abs=subject.tolerance)


def test_a_turn_ends_with_the_token_that_completes_a_closing_tag(subject):
    prompt = some_tokens(random.Random(7), 12)
    free = subject.engine().generate([prompt], Sampling(10, ()), [0])[0]
    tag = TOKENIZER.decode(free.token_ids[3:5])
    cut = subject.engine().generate([prompt], Sampling(10, (tag, "never")), [0])[0]
    first = next(n for n in range(1, 11) if tag in TOKENIZER.decode(free.token_ids[:n]))
    assert cut == Generation(free.token_ids[:first], cut.logprobs, stopped=True)
    at_the_limit = subject.engine().generate([prompt], Sampling(first, (tag,)), [0])[0]
    assert at_the_limit.stopped


def test_token_limit(subject):
    prompt = some_tokens(random.Random(8), 12)
    for limit in (1, 2, 5):
        turn = subject.engine().generate([prompt], Sampling(limit, ()), [0])[0]
        assert (len(turn.token_ids), len(turn.logprobs), turn.stopped) == (limit, limit, False)


def test_after_reset_a_changed_layer_is_used(subject):
    prompts = ragged_prompts(random.Random(10), 3)
    ours, sampling = subject.engine(), Sampling(8, ())
    before = ours.generate(prompts, sampling, [0] * len(prompts))
    with torch.no_grad():
        for name, parameter in ours.model.named_parameters():
            if ".1." in name:  # the second of two layers
                parameter.mul_(1.5)
    ours.reset()
    after = ours.generate(prompts, sampling, [0] * len(prompts))
    assert_same(after, [decode_naively(ours.model, ids, sampling) for ids in prompts], subject.tolerance)
    assert after[0].logprobs != pytest.approx(before[0].logprobs, abs=10 * subject.tolerance)


def test_score_equals_the_log_probabilities_of_naive_decoding(subject):
    prompts = ragged_prompts(random.Random(13))
    turns = [decode_naively(subject.model, ids, Sampling(5, ())) for ids in prompts]
    for batch in (1, 4):
        scores = subject.engine(batch).score(prompts, [turn.token_ids for turn in turns])
        for score, turn in zip(scores, turns, strict=True):
            assert score == pytest.approx(turn.logprobs, abs=subject.tolerance)
    assert subject.engine().score(prompts[:2], [[], [5]])[0] == []


def test_what_was_sampled_scores_as_it_was_sampled(subject):
    prompts = ragged_prompts(random.Random(15))
    ours = subject.engine()
    turns = ours.generate(prompts, Sampling(8, STOP, 1.0), range(len(prompts)))
    for turn, score in zip(turns, ours.score(prompts, [turn.token_ids for turn in turns]), strict=True):
        assert turn.logprobs == pytest.approx(score, abs=subject.tolerance)


def test_nothing_to_do(subject):
    assert subject.engine().generate([], Sampling(4, ()), []) == []
    assert subject.engine().score([], []) == []


def test_each_prompt_needs_a_seed(subject):
    with pytest.raises(ValueError):
        subject.engine().generate([[1], [2]], Sampling(2, ()), [0])
