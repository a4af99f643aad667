"""What the transformers engine does beyond the contract (`test_engine_contract.py`): reuse, padding, training mode."""

import random

import pytest
from engine_samples import END, TOKENIZER, assert_same, decode_naively, ragged_prompts, some_tokens
from tiny_models import tiny_model, word_tokenizer

from talentrl.policy.engine import Sampling
from talentrl.policy.model import load_model
from talentrl.policy.transformers_engine import TransformersEngine


def engine(model, batch=4):
    return TransformersEngine(model, TOKENIZER, batch)


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


def test_what_all_share_what_a_task_shares_and_what_an_arm_shares_are_prefilled_once():
    model = tiny_model("llama")
    forwarded = []
    model.get_input_embeddings().register_forward_hook(lambda module, ids, out: forwarded.append(ids[0].shape))
    draw = random.Random(18)
    menu, tasks = some_tokens(draw, 40), [some_tokens(draw, 20), some_tokens(draw, 24)]
    arms = [menu + task + [arm, *some_tokens(draw, 9)] for task in tasks for arm in (2, 3)]
    prompts = [arm for arm in arms for _ in range(2)]
    ours, sampling = engine(model, 8), Sampling(1, ())
    expected = [decode_naively(model, prompt, sampling) for prompt in prompts]
    forwarded.clear()
    assert_same(ours.generate(prompts, sampling, range(8)), expected)
    assert forwarded == [(1, 40), (2, 24), (4, 10)]
    # A few shared tokens are not worth a pass of their own.
    ours.reset()
    forwarded.clear()
    prompts = [[*menu, task, *some_tokens(draw, 9)] for task in (2, 2, 3, 3)]
    ours.generate(prompts, sampling, range(4))
    assert forwarded == [(1, 40), (4, 10)]


def test_a_later_batch_of_a_call_knows_the_earlier():
    model = tiny_model("llama")
    forwarded = []
    model.get_input_embeddings().register_forward_hook(lambda module, ids, out: forwarded.append(ids[0].shape))
    draw = random.Random(19)
    menu = some_tokens(draw, 40)
    engine(model, 2).generate(
        [[*menu, task, *some_tokens(draw, 9)] for task in (2, 3, 4, 5)], Sampling(1, ()), range(4)
    )
    assert forwarded == [(1, 40), (2, 10), (2, 10)]


def test_padding_asks_for_no_position_beyond_a_learned_table():
    # A long kept conversation beside a long new one: padded columns must not count on from the kept length.
    model = tiny_model("gpt2", positions=80)
    draw = random.Random(12)
    ours, sampling = engine(model), Sampling(4, ())
    first = some_tokens(draw, 60)
    turn = ours.generate([first], sampling, [0])[0]
    prompts = [first + turn.token_ids + some_tokens(draw, 5), some_tokens(draw, 70)]
    assert_same(ours.generate(prompts, sampling, [0, 0]), [decode_naively(model, p, sampling) for p in prompts])


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


def test_an_interrupted_call_leaves_the_engine_usable():
    model = tiny_model("llama")
    ours, sampling = engine(model), Sampling(8, ())
    prompts = ragged_prompts(random.Random(16), 3)
    expected = ours.generate(prompts, sampling, [0] * 4)
    forwarded = []

    def interrupt(*arguments):
        forwarded.append(1)
        if len(forwarded) == 3:
            raise KeyboardInterrupt

    hook = model.get_input_embeddings().register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        ours.generate(prompts, sampling, [0] * 4)
    hook.remove()
    assert_same(ours.generate(prompts, sampling, [0] * 4), expected)
