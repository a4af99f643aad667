"""The systems that are compared: whose checkpoint each uses, who routes, what is shown, and which tokens are whose."""

from pathlib import Path
from typing import get_args

import pytest
from rollout_samples import BANK, CHAT, OTHER, TASK, make_runner

from talentrl.benchmarks.taskset import Task
from talentrl.config import System
from talentrl.evaluation.systems import checkpoint, evaluate_system
from talentrl.policy.parser import ACTION_STOP, ROUTING_STOP

SEARCH, ANSWER = "<search>x</search>", "<answer>y</answer>"


def says(routing: str):
    """A policy that routes as it is told to, searches once, and answers."""
    return lambda text, seed: [routing, SEARCH, ANSWER][min(text.count("<assistant>") - 1, 2)]


def run(system: System, routing="<talent>b</talent>", tasks=(TASK,), seed=3, show_strategy=True):
    """The runner and the episodes of `system`."""
    runner = make_runner(says(routing))
    runner.show_strategy = show_strategy
    return runner, evaluate_system(system, runner, tasks, seed)


def shown(episode) -> str:
    """The talent context."""
    return episode.turns[2].text


def spelled(episode, mask) -> str:
    return CHAT.decode([token for token, chosen in zip(episode.token_ids, mask, strict=True) if chosen])


WHOLE = "Strategy: Be quick.\nread: Do it."  # talent b: its strategy, and the skill that its prior lifts
FLAT = "find: Do it."  # what retrieval finds without a talent


@pytest.mark.parametrize(
    ("system", "context", "context_without_strategies", "asked"),
    [
        ("zero_shot", WHOLE, "read: Do it.", ["b"]),
        ("sft", WHOLE, "read: Do it.", ["b"]),
        ("rl", WHOLE, "read: Do it.", ["b"]),
        ("strategy_only", "Strategy: Be quick.\nfind: Do it.", FLAT, [None]),
        ("skills_only", "read: Do it.", "read: Do it.", ["b"]),
        ("tag_only", "No strategy.", "No strategy.", []),
    ],
)
def test_systems_that_route_for_themselves(system, context, context_without_strategies, asked):
    for show_strategy, expected in ((True, context), (False, context_without_strategies)):
        runner, (episode,) = run(system, show_strategy=show_strategy)
        assert shown(episode) == expected
        assert runner.retriever.requests == asked, "the talent whose prior is used; None is flat retrieval"
        assert [skill.prior for skill in episode.skills] == [0.5 if talent else 0.0 for talent in asked]
        assert (episode.talent, episode.routing_valid) == ("b", True)
        # The policy chose the tag, also where the rest of the talent is then withheld.
        assert spelled(episode, episode.routing_mask) == "<talent>b</talent>"
        assert spelled(episode, episode.action_mask) == SEARCH + ANSWER


@pytest.mark.parametrize("show_strategy", [True, False])
def test_flat_has_no_talent(show_strategy):
    runner, (episode,) = run("flat", show_strategy=show_strategy)
    assert (episode.intervention, episode.talent, shown(episode)) == ("null", None, FLAT)
    assert runner.retriever.requests == [None]
    assert episode.turns[1].text == "<talent>none</talent>"
    assert not any(episode.routing_mask)
    assert spelled(episode, episode.action_mask) == SEARCH + ANSWER


@pytest.mark.parametrize("show_strategy", [True, False])
def test_oracle_is_shown_every_talent_in_turn(show_strategy):
    runner, episodes = run("oracle", tasks=(TASK, OTHER), show_strategy=show_strategy)
    assert [(e.task_id, e.talent) for e in episodes] == [(t, z) for t in ("t1", "t2") for z in ("a", "b")]
    strategies = ["Strategy: Go on.\n", "Strategy: Be quick.\n"] if show_strategy else ["", ""]
    assert [shown(e) for e in episodes] == [f"{strategies[0]}find: Do it.", f"{strategies[1]}read: Do it."] * 2
    assert runner.retriever.requests == ["a", "b"] * 2
    assert {e.intervention for e in episodes} == {"forced"}
    assert not any(any(e.routing_mask) for e in episodes)


def test_random_is_given_a_talent_by_a_lot_that_depends_on_seed_and_task_alone():
    tasks = [Task(f"t{i}", "atlas", "test", "q?", ("y",), {}) for i in range(40)]
    drawn = {seed: [e.talent for e in run("random", tasks=tasks, seed=seed)[1]] for seed in (3, 4)}
    for talents in drawn.values():
        assert set(talents) == {"a", "b"} and 8 < talents.count("a") < 32
    assert drawn[3] != drawn[4]
    runner, episodes = run("random", "<talent>a</talent>", tasks[::-1])
    assert [e.talent for e in episodes] == drawn[3][::-1]
    for episode in episodes:
        whole = {"a": "Strategy: Go on.\nfind: Do it.", "b": WHOLE}
        assert (episode.intervention, shown(episode)) == ("forced", whole[episode.talent])
        assert not any(episode.routing_mask)
    assert runner.retriever.requests == drawn[3][::-1]


@pytest.mark.parametrize("system", get_args(System))
def test_every_system_is_greedy_and_has_the_budgets_of_the_others(system):
    runner, episodes = run(system, tasks=(TASK, OTHER))
    routing = [sampling for _, sampling, _ in runner.engine.calls if sampling.stop == ROUTING_STOP]
    execution = [sampling for _, sampling, _ in runner.engine.calls if sampling.stop == ACTION_STOP]
    assert len(routing) + len(execution) == len(runner.engine.calls)
    assert len(routing) == (system not in ("flat", "random", "oracle"))
    assert {sampling.temperature for sampling in routing + execution} == {0.0}
    assert {sampling.max_tokens for sampling in execution} == {runner.limits.turn_tokens}
    assert all(e.value == 1.0 and e.searches == 1 and len(e.skills) <= runner.limits.skills for e in episodes)
    assert {(e.seed, e.rollout) for e in episodes} == {(3, 0)}


@pytest.mark.parametrize("system", ["zero_shot", "sft", "rl", "strategy_only", "skills_only", "tag_only"])
def test_a_routing_turn_that_names_no_talent_falls_to_the_null_talent(system):
    runner, (episode,) = run(system, "<talent>c</talent>")
    assert (episode.talent, episode.routing_valid) == (None, False)
    assert shown(episode) == ("No strategy." if system == "tag_only" else FLAT)
    assert runner.retriever.requests == ([] if system == "tag_only" else [None])
    assert spelled(episode, episode.routing_mask) == "<talent>c</talent>"


def test_the_layout_when_nothing_but_the_tag_is_left():
    #  <talent> b </talent> | <end> <user> No strategy. <end> <assistant> | <search> x </search> | …
    #     R     R     R     |   .      .        .         .        .      |    A     A     A     | …
    _, (episode,) = run("tag_only")
    after = slice(episode.prompt_tokens, episode.prompt_tokens + 11)
    assert [CHAT.tokenizer.decode([token]) for token in episode.token_ids[after]] == [
        *("<talent>", "b", "</talent>"),
        *("<end>", "<user>", "No strategy.", "<end>", "<assistant>"),
        *("<search>", "x", "</search>"),
    ]
    assert episode.routing_mask[after] == [True] * 3 + [False] * 8
    assert episode.action_mask[after] == [False] * 8 + [True] * 3


def test_the_menu_is_the_same_whatever_is_shown():
    prompts = set()
    for system in get_args(System):
        for show_strategy in (True, False):
            for episode in run(system, show_strategy=show_strategy)[1]:
                prompts.add(tuple(episode.token_ids[: episode.prompt_tokens]))
    (prompt,) = prompts
    assert all(f"{talent.id}: {talent.description}" in CHAT.decode(list(prompt)) for talent in BANK.talents.values())


def test_checkpoints():
    paths = {system: checkpoint(system, 7) for system in get_args(System)}
    assert paths.pop("zero_shot") == Path("data/model")
    assert paths.pop("sft") == Path("data/sft/7")
    assert set(paths.values()) == {Path("data/rl/7")}
