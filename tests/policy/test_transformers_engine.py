"""The contract of generation engines, kept by the transformers engine: equal to naive decoding, whatever the batch."""

import random
from collections import Counter

import pytest
import torch
from tiny_models import ARCHITECTURES, VOCABULARY, tiny_model, word_tokenizer

from talentrl.policy.engine import Generation, Sampling
from talentrl.policy.model import load_model
from talentrl.policy.transformers_engine import TransformersEngine

TOKENIZER = word_tokenizer()
END = VOCABULARY - 1
STOP = ("1 w", "w77")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request):
    return tiny_model(request.param)


@pytest.fixture(scope="module")
def llama():
    return tiny_model("llama")


def engine(model, batch=4):
    return TransformersEngine(model, TOKENIZER, batch)


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
    ids, logprobs, stopped = [], [], False
    while len(ids) < sampling.max_tokens and not stopped:
        row = torch.log_softmax(model(torch.tensor([prompt + ids])).logits[0, -1].float(), dim=-1)
        ids.append(int(row.argmax()))
        logprobs.append(float(row.max()))
        stopped = ids[-1] == END or any(tag in TOKENIZER.decode(ids) for tag in sampling.stop)
    return Generation(ids, logprobs, stopped)


def assert_same(found, expected):
    assert [turn.token_ids for turn in found] == [turn.token_ids for turn in expected]
    assert [turn.stopped for turn in found] == [turn.stopped for turn in expected]
    for a, b in zip(found, expected, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


def test_greedy_turns_of_growing_conversations_equal_naive_decoding(model):
    draw = random.Random(1)
    conversations = ragged_prompts(draw)
    ours = engine(model)
    sampling = Sampling(9, STOP)
    ends = Counter()
    for _ in range(4):
        turns = ours.generate(conversations, sampling, [0] * len(conversations))
        assert_same(turns, [decode_naively(model, ids, sampling) for ids in conversations])
        ends.update(turn.stopped for turn in turns)
        conversations = [
            ids + turn.token_ids + some_tokens(draw, draw.randrange(1, 9))
            for ids, turn in zip(conversations, turns, strict=True)
        ]
        draw.shuffle(conversations)
        conversations = conversations[: max(3, len(conversations) - 1)]
    assert len(ends) == 2, "some turns must stop and some must reach the limit"


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_results_depend_neither_on_batch_nor_on_order(model, temperature):
    prompts = ragged_prompts(random.Random(2))
    seeds = list(range(len(prompts)))
    sampling = Sampling(8, STOP, temperature)
    expected = [engine(model, 1).generate([ids], sampling, [seed])[0] for ids, seed in zip(prompts, seeds, strict=True)]
    for batch in (1, 4, 7):
        assert_same(engine(model, batch).generate(prompts, sampling, seeds), expected)
    order = random.Random(3).sample(seeds, len(seeds))
    shuffled = engine(model, 4).generate([prompts[i] for i in order], sampling, [seeds[i] for i in order])
    assert_same([shuffled[order.index(i)] for i in seeds], expected)


def test_sampled_conversations_do_not_depend_on_what_the_engine_kept(model):
    draw = random.Random(4)
    conversations = ragged_prompts(draw, 3)
    ours = engine(model)
    sampling = Sampling(6, STOP, 1.0)
    for turn in range(3):
        seeds = [turn * 10 + i for i in range(len(conversations))]
        turns = ours.generate(conversations, sampling, seeds)
        assert_same(turns, engine(model).generate(conversations, sampling, seeds))
        conversations = [c + t.token_ids + some_tokens(draw, 4) for c, t in zip(conversations, turns, strict=True)]


def test_same_seed_same_turn_other_seed_other_turn(llama):
    prompt = some_tokens(random.Random(5), 12)
    turns = engine(llama).generate([prompt] * 4, Sampling(12, (), 1.0), [7, 7, 8, 2**40])
    assert turns[0].token_ids == turns[1].token_ids
    assert len({tuple(turn.token_ids) for turn in turns}) == 3


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_tokens_are_sampled_from_the_models_distribution(llama, temperature):
    prompt, draws = some_tokens(random.Random(6), 12), 4000
    turns = engine(llama, draws).generate([prompt] * draws, Sampling(1, (), temperature), range(draws))
    with torch.no_grad():
        logits = llama(torch.tensor([prompt])).logits[0, -1].double()
    probabilities = torch.softmax(logits / temperature, dim=-1)
    counts = Counter(turn.token_ids[0] for turn in turns)
    for token in probabilities.topk(10).indices.tolist():
        p = float(probabilities[token])
        assert abs(counts[token] / draws - p) < 4 * (p * (1 - p) / draws) ** 0.5
    for turn in turns[:20]:
        assert turn.logprobs == pytest.approx([float(probabilities[turn.token_ids[0]].log())], abs=1e-4)


def test_a_turn_ends_with_the_token_that_completes_a_closing_tag(llama):
    prompt = some_tokens(random.Random(7), 12)
    free = engine(llama).generate([prompt], Sampling(10, ()), [0])[0]
    tag = TOKENIZER.decode(free.token_ids[3:5])
    cut = engine(llama).generate([prompt], Sampling(10, (tag, "never")), [0])[0]
    first = next(n for n in range(1, 11) if tag in TOKENIZER.decode(free.token_ids[:n]))
    assert cut == Generation(free.token_ids[:first], cut.logprobs, stopped=True)


def test_token_limit(llama):
    prompt = some_tokens(random.Random(8), 12)
    for limit in (1, 2, 5):
        turn = engine(llama).generate([prompt], Sampling(limit, ()), [0])[0]
        assert (len(turn.token_ids), len(turn.logprobs), turn.stopped) == (limit, limit, False)


def test_end_tokens_stop_the_tokenizers_and_the_models_own():
    model = tiny_model("llama", seed=1)
    prompts = ragged_prompts(random.Random(9))
    free = engine(model).generate(prompts, Sampling(10, ()), [0] * len(prompts))
    other = free[0].token_ids[4]
    model.generation_config.eos_token_id = [END, other]
    cut = engine(model).generate(prompts, Sampling(10, ()), [0] * len(prompts))
    for before, after in zip(free, cut, strict=True):
        ends = [n for n, token in enumerate(before.token_ids) if token == other]
        assert after.stopped == bool(ends)
        assert after.token_ids == (before.token_ids[: ends[0] + 1] if ends else before.token_ids)
    tokenizer = word_tokenizer()
    tokenizer.eos_token = f"w{other}"
    model.generation_config.eos_token_id = None
    assert TransformersEngine(model, tokenizer).generate(prompts[:1], Sampling(10, ()), [0])[0].stopped


def test_after_reset_new_weights_are_used():
    model = tiny_model("llama")
    prompts = ragged_prompts(random.Random(10), 3)
    ours, sampling = engine(model), Sampling(8, ())
    before = ours.generate(prompts, sampling, [0] * len(prompts))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.7).add_(0.01)
    ours.reset()
    after = ours.generate(prompts, sampling, [0] * len(prompts))
    assert_same(after, [decode_naively(model, ids, sampling) for ids in prompts])
    assert [turn.token_ids for turn in after] != [turn.token_ids for turn in before]


def test_what_is_known_is_not_forwarded_again():
    model = tiny_model("llama")
    forwarded = []
    model.get_input_embeddings().register_forward_hook(lambda module, ids, out: forwarded.append(ids[0].shape))
    ours, sampling = engine(model, 8), Sampling(4, ())
    prompt = some_tokens(random.Random(11), 50)
    turns = ours.generate([prompt] * 8, sampling, range(8))
    assert forwarded == [(1, 50), (8, 1), (8, 1), (8, 1)], "equal prompts are prefilled once"
    forwarded.clear()
    ours.generate([prompt + turn.token_ids + [1, 2, 3] for turn in turns[:1]], sampling, [0])
    # The token sampled last was not forwarded yet.
    assert forwarded[0] == (1, 4)


def test_padding_asks_for_no_position_beyond_a_learned_table():
    # A long kept conversation beside a long new one: padded columns must not count on from the kept length.
    model = tiny_model("gpt2", positions=80)
    draw = random.Random(12)
    ours, sampling = engine(model), Sampling(4, ())
    first = some_tokens(draw, 60)
    turn = ours.generate([first], sampling, [0])[0]
    prompts = [first + turn.token_ids + some_tokens(draw, 5), some_tokens(draw, 70)]
    assert_same(ours.generate(prompts, sampling, [0, 0]), [decode_naively(model, p, sampling) for p in prompts])


def test_score_equals_the_log_probabilities_of_naive_decoding(model):
    prompts = ragged_prompts(random.Random(13))
    turns = [decode_naively(model, ids, Sampling(5, ())) for ids in prompts]
    for batch in (1, 4):
        scores = engine(model, batch).score(prompts, [turn.token_ids for turn in turns])
        for score, turn in zip(scores, turns, strict=True):
            assert score == pytest.approx(turn.logprobs, abs=1e-4)
    assert engine(model).score(prompts[:2], [[], [5]])[0] == []


def test_a_model_in_training_is_used_without_dropout_and_stays_in_training():
    model = tiny_model("gpt2")
    prompts = ragged_prompts(random.Random(14), 3)
    expected = engine(model).generate(prompts, Sampling(5, ()), [0] * 4)
    scores = engine(model).score(prompts, [turn.token_ids for turn in expected])
    model.train()
    ours = engine(model)
    assert_same(ours.generate(prompts, Sampling(5, ()), [0] * 4), expected)
    assert ours.score(prompts, [turn.token_ids for turn in expected]) == scores
    assert model.training


def test_each_prompt_needs_a_seed(llama):
    with pytest.raises(ValueError):
        engine(llama).generate([[1], [2]], Sampling(2, ()), [0])


def test_bfloat16_samples_what_its_trainer_would_score(tmp_path):
    """Sampled with converted weights kept for a call, and scored as the trainer does: the same up to rounding."""
    tiny_model("llama").save_pretrained(tmp_path)
    bfloat16 = TransformersEngine(load_model(tmp_path, "bfloat16"), TOKENIZER, 4)
    prompts = ragged_prompts(random.Random(5))
    turns = bfloat16.generate(prompts, Sampling(8, (), 1.0), range(len(prompts)))
    scores = bfloat16.score(prompts, [turn.token_ids for turn in turns])
    for turn, score in zip(turns, scores, strict=True):
        assert turn.logprobs == pytest.approx(score, abs=0.05)
    exact = TransformersEngine(load_model(tmp_path), TOKENIZER, 4)
    assert exact.score(prompts, [turn.token_ids for turn in turns]) != scores
