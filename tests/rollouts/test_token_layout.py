"""The token layout of an episode, drawn and asserted mask by mask."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_samples import BANK, CHAT, LIMITS, TASK, in_turn, make_runner, request

from talentrl.benchmarks.taskset import Task
from talentrl.policy.prompts import system_prompt
from talentrl.rollouts.runner import Routing

SCRIPT = in_turn("<search>x</search>", "<answer>y</answer>")

# One token a column; R routing, A action (execution), dot context. The prompt comes before.
#
# <talent> b </talent> | <end> <user> Strategy:_ Be quick. \n read:_ Do it. <end> <assistant>
#    R     R     R     |   .      .        .         .      .    .      .     .        .
#
# <search> x </search> | <end> <user> <information> fact </information> <end> <assistant>
#    A     A     A     |   .      .          .        .         .         .        .
#
# <answer> y </answer>
#    A     A     A
PIECES = [
    *("<talent>", "b", "</talent>"),
    *("<end>", "<user>", "Strategy: ", "Be quick.", "\n", "read: ", "Do it.", "<end>", "<assistant>"),
    *("<search>", "x", "</search>"),
    *("<end>", "<user>", "<information>", "fact", "</information>", "<end>", "<assistant>"),
    *("<answer>", "y", "</answer>"),
]


def mask(bits):
    return [int(bit) for bit in bits.replace(" ", "")]


ROUTING = mask("111 000000000 000 0000000 000")
CONTEXT = mask("000 111111111 000 1111111 000")
ACTIONS = mask("000 000000000 111 0000000 111")


def pieces(ids):
    return [CHAT.tokenizer.decode([token]) for token in ids]


def play_one(intervention, talent, reply=SCRIPT):
    runner = make_runner(reply)
    return runner.run([request(runner, intervention, talent)], temperature=1.0)[0]


def after_prompt(episode):
    start = episode.prompt_tokens
    context = [not (r or a) for r, a in zip(episode.routing_mask, episode.action_mask, strict=True)]
    return pieces(episode.token_ids[start:]), episode.routing_mask[start:], context[start:], episode.action_mask[start:]


def test_routed_arm():
    episode = play_one("routed", "b")
    prompt = episode.token_ids[: episode.prompt_tokens]
    system = system_prompt(list(BANK.talents.values()))
    assert CHAT.tokenizer.decode(prompt) == f"<system>{system}<end><user>q?<end><assistant>"
    assert not any(episode.routing_mask[: len(prompt)])
    assert not any(episode.action_mask[: len(prompt)])
    assert after_prompt(episode) == (PIECES, ROUTING, CONTEXT, ACTIONS)
    assert episode.sampled_tokens == sum(ROUTING) + sum(ACTIONS)
    # Log-probabilities stand on sampled tokens; all others are 0.
    action = [-0.25, -0.5, -0.75]
    assert episode.logprobs == [0.0] * len(prompt) + [-0.5] * 3 + [0.0] * 9 + action + [0.0] * 7 + action
    assert episode.routing_probability == pytest.approx(2.718281828**-1.5)


@pytest.mark.parametrize("intervention", ["forced", "strategy_only"])
def test_an_arm_whose_talent_was_set_masks_the_tag(intervention):
    episode = play_one(intervention, "b")
    found, routing, context, actions = after_prompt(episode)
    expected = list(PIECES)
    if intervention == "strategy_only":  # the strategy, with skills of flat retrieval
        expected[expected.index("read: ")] = "find: "
    assert found == expected
    assert routing == [0] * len(PIECES)
    assert context == [r or c for r, c in zip(ROUTING, CONTEXT, strict=True)]
    assert actions == ACTIONS
    assert episode.routing_probability is None


@pytest.mark.parametrize(
    ("intervention", "talent", "tag", "skill"),
    [("null", None, "none", "find: "), ("skills_only", "b", "b", "read: ")],
)
def test_arms_without_a_strategy(intervention, talent, tag, skill):
    #  <talent> none </talent> | <end> <user> find:_ Do it. <end> <assistant> | <search> …
    #     .      .       .     |   .      .      .      .     .        .      |    A     …
    episode = play_one(intervention, talent)
    found, routing, context, actions = after_prompt(episode)
    expected = ["<talent>", tag, "</talent>", "<end>", "<user>", skill, "Do it.", "<end>", "<assistant>", *PIECES[12:]]
    assert found == expected
    assert routing == [0] * len(expected)
    assert context == [1] * 9 + CONTEXT[12:]
    assert actions == [0] * 9 + ACTIONS[12:]


def test_a_malformed_routing_turn_falls_to_the_null_talent_and_is_counted():
    runner = make_runner(lambda text, seed: SCRIPT(text, seed) if text.count("<assistant>") > 1 else "no tag")
    routing = runner.route([TASK], [0])[0]
    assert (routing.talent, routing.valid, routing.sampled) == (None, False, True)
    malformed = dataclasses.replace(request(runner, "null", None), routing=routing)
    malformed = dataclasses.replace(malformed, arm=dataclasses.replace(malformed.arm, intervention="routed"))
    episode = runner.run([malformed], temperature=0.0)[0]
    found, routing_mask, _, actions = after_prompt(episode)
    #  n o _ t a g | <end> <user> find:_ Do it. <end> <assistant> | …
    #  R R R R R R |   .      .      .      .     .        .      | …
    context = ["<end>", "<user>", "find: ", "Do it.", "<end>", "<assistant>"]
    assert found == [*"no tag", *context, *PIECES[12:]]
    assert routing_mask == [1] * 6 + [0] * (6 + 13)
    assert actions == [0] * 12 + ACTIONS[12:]
    assert (episode.routing_valid, episode.talent, episode.arm_id) == (False, None, "routed:none")
    assert runner.retriever.requests == [None], "retrieval is flat"


@pytest.mark.parametrize("said", ["<talent>c</talent>", "<talent>none</talent>", "<talent>b", "b", ""])
def test_routing_turns_that_name_no_talent(said):
    routing = make_runner(lambda text, seed: said).route([TASK], [0])[0]
    assert (routing.talent, routing.valid) == (None, False)


def test_a_sampled_end_token_stands_once():
    end = CHAT.tokenizer.eos_token_id
    runner = make_runner(
        lambda text, seed: [*CHAT.encode("x"), end] if text.count("<end>") < 5 else "<answer>y</answer>"
    )
    episode = runner.run([request(runner)], temperature=0.0)[0]
    found, _, _, actions = after_prompt(episode)
    assert found[12:16] == ["x", "<end>", "<user>", "N"]
    assert actions[12:16] == [1, 1, 0, 0], "the end token was sampled, so it is trained on"
    assert "<end><end>" not in "".join(found)


words = st.sampled_from(["<search>", "</search>", "<answer>", "</answer>", "<think>", "x", "<end>", "<user>", ""])
turns = st.lists(words, max_size=6).map("".join)
interventions = st.sampled_from(
    [("routed", "a"), ("forced", "b"), ("null", None), ("strategy_only", "a"), ("skills_only", "b")]
)


@given(
    st.lists(st.tuples(interventions, st.lists(turns, min_size=1, max_size=5)), min_size=1, max_size=5),
    st.integers(260, 420),
    st.integers(1, 30),
    st.integers(1, 4),
    turns,
)
def test_token_lists_are_always_aligned(arms, max_tokens, turn_tokens, turn_limit, question):
    """Whatever is said, in whatever arm, under whatever limits: one mask value and log-probability a token."""
    scripts = {seed: script for seed, (_, script) in enumerate(arms)}

    def reply(text, seed):
        return scripts[seed // 1009][seed % 1009 % len(scripts[seed // 1009])]

    limits = dataclasses.replace(LIMITS, max_tokens=max_tokens, turn_tokens=turn_tokens, turns=turn_limit, batch=3)
    runner = make_runner(reply, limits)
    task = Task("t", "atlas", "test", question, ("x",), {})
    requests = [
        request(runner, intervention, talent, task, seed=seed) for seed, ((intervention, talent), _) in enumerate(arms)
    ]
    episodes = runner.run(requests, temperature=1.0)
    generated = {seed: [] for seed in scripts}
    for prompts, sampling, seeds in runner.engine.calls:
        assert all(len(prompt) + sampling.max_tokens <= max_tokens for prompt in prompts)
        for seed in seeds:
            generated[seed // 1009] += CHAT.encode(reply("", seed))[: sampling.max_tokens]
    for seed, episode in enumerate(episodes):
        lists = (episode.token_ids, episode.routing_mask, episode.action_mask, episode.logprobs)
        assert len({len(values) for values in lists}) == 1
        assert not any(r and a for r, a in zip(episode.routing_mask, episode.action_mask, strict=True))
        assert episode.sampled_tokens == sum(episode.routing_mask) + sum(episode.action_mask)
        # What was generated is what stands in the episode, token for token.
        assert [t for t, a in zip(episode.token_ids, episode.action_mask, strict=True) if a] == generated[seed]
        assert any(episode.routing_mask) == (episode.intervention == "routed")
        assert all(p == 0.0 for p, r, a in zip(*lists[3:], *lists[1:3], strict=True) if not (r or a))
        assert episode.value in (0.0, 1.0)
        assert episode.stop_reason in ("answered", "turn_limit", "token_limit")


def test_routing_probability_needs_a_score():
    assert Routing("a", [1, 2], [], sampled=False).probability is None
    assert Routing("a", [1, 2], [0.0, 0.0], sampled=True).probability == 1.0
