"""Batched rollouts: how they end, what goes wrong in one of them, and the teacher's episodes."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rollout_samples import BANK, CHAT, LIMITS, OTHER, TASK, FragileEnvironment, in_turn, make_runner, request

from talentrl.benchmarks.taskset import Task
from talentrl.environments.environment import Step
from talentrl.errors import InputError
from talentrl.policy.parser import ACTION_STOP, ROUTING_STOP
from talentrl.rollouts.episode import StopReason, Turn
from talentrl.rollouts.interventions import Arm, derive_seed
from talentrl.rollouts.runner import RolloutRequest


def limited(**changes):
    return dataclasses.replace(LIMITS, **changes)


def run_one(*texts, limits=LIMITS, task=TASK):
    runner = make_runner(in_turn(*texts), limits)
    return runner.run([request(runner, task=task)], temperature=0.0)[0]


def comparable(episode):
    return dataclasses.replace(episode, seconds=0.0)


def test_a_whole_episode_is_recorded():
    episode = run_one("<think>hm</think><search>x</search>", "<answer>y</answer>")
    assert episode.turns == [
        Turn("user", "q?"),
        Turn("assistant", "<talent>b</talent>"),
        Turn("user", "Strategy: Be quick.\nread: Do it."),
        Turn("assistant", "<think>hm</think><search>x</search>"),
        Turn("user", "<information>fact</information>"),
        Turn("assistant", "<answer>y</answer>"),
    ]
    assert (episode.value, episode.exact_match, episode.f1) == (1.0, 1.0, 1.0)
    assert (episode.stop_reason, episode.error) == (StopReason.ANSWERED, None)
    assert (episode.searches, episode.invalid_actions) == (1, 0)
    assert (episode.episode_id, episode.arm_id) == ("t1/forced:b/0", "forced:b")
    assert (episode.checkpoint, episode.bank_digest, episode.encoder) == ("model@1", BANK.digest, "encoder-1")
    assert [(skill.id, skill.prior) for skill in episode.skills] == [("read", 0.5)]
    assert episode.seconds > 0


def test_a_malformed_action_costs_a_turn_and_gets_a_clear_observation():
    episode = run_one("I do not know", "<search>x</search>", "<answer>y</answer>", limits=limited(turns=3))
    assert "<search>query</search>" in episode.turns[4].text
    assert (episode.invalid_actions, episode.searches, episode.value) == (1, 1, 1.0)
    episode = run_one("I do not know", "<search>x</search>", "<answer>y</answer>", limits=limited(turns=2))
    assert (episode.stop_reason, episode.value) == (StopReason.TURN_LIMIT, 0.0)


def test_turn_limit():
    episode = run_one("<search>x</search>", limits=limited(turns=3))
    assert (episode.stop_reason, episode.searches, episode.value) == (StopReason.TURN_LIMIT, 3, 0.0)


def test_token_limit_of_a_turn_cuts_it():
    episode = run_one("<search>xyz</search>", limits=limited(turns=1, turn_tokens=3))
    assert episode.turns[3] == Turn("assistant", "<search>xy")
    assert (episode.invalid_actions, episode.searches) == (1, 0)


def test_token_limit_of_a_conversation_ends_it_before_a_turn_that_might_not_fit():
    free = run_one("<search>x</search>", "<answer>y</answer>", limits=limited(turn_tokens=10))
    before_last_turn = len(free.token_ids) - 3
    fits = limited(turn_tokens=10, max_tokens=before_last_turn + 10)
    assert run_one("<search>x</search>", "<answer>y</answer>", limits=fits).stop_reason == StopReason.ANSWERED
    short = limited(turn_tokens=10, max_tokens=before_last_turn + 9)
    episode = run_one("<search>x</search>", "<answer>y</answer>", limits=short)
    assert (episode.stop_reason, episode.value) == (StopReason.TOKEN_LIMIT, 0.0)
    assert episode.token_ids == free.token_ids[:-3]


def test_a_question_longer_than_the_context_is_a_recorded_episode():
    episode = run_one("<answer>y</answer>", task=Task("t", "atlas", "test", "why " * 1000, ("y",), {}))
    assert (episode.stop_reason, episode.value, episode.sampled_tokens) == (StopReason.TOKEN_LIMIT, 0.0, 0)


def test_a_question_that_leaves_no_room_for_a_routing_turn_is_not_routed_and_does_not_stop_the_others():
    runner = make_runner(lambda conversation, seed: "<talent>b</talent>")
    long = Task("t", "atlas", "test", "why " * 1000, ("y",), {})
    none, chosen = runner.route([long, TASK], [0, 1])
    assert (none.talent, none.sampled, none.valid) == (None, False, False)
    assert (chosen.talent, chosen.valid) == ("b", True)
    ((prompts, _, seeds),) = runner.engine.calls
    assert (len(prompts), seeds) == (1, [1])
    (episode,) = runner.run([RolloutRequest(Arm(long, "routed", None), none, 0, 0)], 0.0)
    assert (episode.stop_reason, episode.sampled_tokens, episode.routing_valid) == (StopReason.TOKEN_LIMIT, 0, False)


@pytest.mark.parametrize(
    ("word", "error"),
    [("crash", "KeyError: 'the server is gone'"), ("outcome", "RuntimeError: no judge")],
)
def test_an_exception_in_an_environment_is_a_recorded_episode_and_its_siblings_go_on(word, error):
    runner = make_runner(lambda text, seed: f"<answer>{word}</answer>" if "other?" in text else "<answer>y</answer>")
    requests = [request(runner, task=task, rollout=m) for m in range(2) for task in (TASK, OTHER)]
    episodes = runner.run(requests, temperature=0.0)
    assert [episode.task_id for episode in episodes] == ["t1", "t2"] * 2
    for good, failed in (episodes[:2], episodes[2:]):
        assert (good.value, good.stop_reason, good.error) == (1.0, StopReason.ANSWERED, None)
        assert (failed.value, failed.stop_reason, failed.error) == (None, StopReason.ERROR, error)
        assert failed.exact_match is None
        assert failed.turns[-1].text == f"<answer>{word}</answer>"
        assert len(failed.token_ids) == len(failed.action_mask) == len(failed.logprobs)


def test_an_exception_in_retrieval_is_a_recorded_episode():
    runner = make_runner(in_turn("<answer>y</answer>"))
    broken = Task("t3", "atlas", "test", "break it", ("y",), {})
    failed, good = runner.run([request(runner, task=broken), request(runner)], temperature=0.0)
    assert (failed.value, failed.stop_reason, failed.error) == (None, "error", "RuntimeError: no index")
    assert good.value == 1.0
    # What was sampled before is kept: the prompt and the routing turn, with aligned masks.
    assert len(failed.token_ids) > failed.prompt_tokens > 0
    assert len(failed.token_ids) == len(failed.routing_mask) == len(failed.action_mask) == len(failed.logprobs)
    only = make_runner(in_turn("<answer>y</answer>")).run([request(runner, task=broken)], temperature=0.0)
    assert only[0].error == failed.error


def test_a_users_fault_is_not_hidden_in_an_episode():
    with pytest.raises(InputError, match="index: no such file"):
        run_one("<search>user</search>")


def test_batches_hold_at_most_the_limit_and_change_nothing():
    def reply(text, seed):
        return f"<search>{seed}</search>" if seed % 1009 < seed // 1009 % 3 else "<answer>y</answer>"

    results = []
    for batch in (1, 4, 7):
        runner = make_runner(reply, limited(batch=batch))
        requests = [request(runner, task=task, rollout=m, seed=m) for task in (TASK, OTHER) for m in range(4)]
        results.append([comparable(episode) for episode in runner.run(requests, temperature=1.0)])
        assert max(len(prompts) for prompts, _, _ in runner.engine.calls) == batch
    assert results[0] == results[1] == results[2]
    assert [(e.task_id, e.rollout, e.searches) for e in results[0]] == [
        (task, m, m % 3) for task in ("t1", "t2") for m in range(4)
    ]


def test_rollout_m_has_the_same_seeds_and_settings_in_every_arm():
    runner = make_runner(in_turn("<search>x</search>", "<answer>y</answer>"))
    arms = [("routed", "a"), ("routed", "b"), ("null", None), ("strategy_only", "a")]
    runner.run(
        [
            request(runner, intervention, talent, rollout=m, seed=derive_seed(1, "rollout", TASK.task_id, m))
            for intervention, talent in arms
            for m in range(2)
        ],
        temperature=0.8,
    )
    assert len(runner.engine.calls) == 2
    for turn, (_, sampling, seeds) in enumerate(runner.engine.calls):
        by_arm = [tuple(seeds[i : i + 2]) for i in range(0, 8, 2)]
        assert len(set(by_arm)) == 1, "the same seeds in every arm"
        assert len(set(by_arm[0])) == 2, "another seed for each rollout"
        assert (sampling.stop, sampling.temperature) == (ACTION_STOP, 0.8)
        if turn:
            assert not set(seeds) & set(runner.engine.calls[0][2]), "another seed for each turn"


def test_routing_turns_are_sampled_with_their_own_limit_and_stop():
    runner = make_runner(lambda text, seed: f"<talent>{'ab'[seed]}</talent>")
    routings = runner.route([TASK, OTHER], [0, 1], temperature=0.5)
    assert [routing.talent for routing in routings] == ["a", "b"]
    assert all(routing.sampled and routing.valid and len(routing.logprobs) == 3 for routing in routings)
    prompts, sampling, seeds = runner.engine.calls[0]
    assert (sampling.max_tokens, sampling.stop, sampling.temperature) == (16, ROUTING_STOP, 0.5)
    assert (prompts, seeds) == ([runner.prompt(TASK), runner.prompt(OTHER)], [0, 1])


def test_scored_talents_are_the_turns_the_policy_would_write():
    for turns in make_runner(in_turn("")).score_talents([TASK, OTHER]):
        assert list(turns) == ["a", "b"]
        for talent, routing in turns.items():
            assert CHAT.decode(routing.token_ids) == f"<talent>{talent}</talent>"
            assert routing.logprobs == [-0.5] * 3


def test_the_menu_follows_the_requests_order():
    runner = make_runner(in_turn("<answer>y</answer>"))
    shuffled = dataclasses.replace(request(runner), menu=("b", "a"))
    text = CHAT.decode(runner.run([shuffled], temperature=0.0)[0].token_ids)
    assert "b: second\na: first" in text
    assert "a: first\nb: second" in CHAT.decode(runner.prompt(TASK))


def test_a_talent_menu_longer_than_the_context_is_refused():
    menu = len(CHAT.prompt(make_runner(in_turn(""))._system, ""))
    room = LIMITS.routing_tokens + LIMITS.turn_tokens
    make_runner(in_turn(""), limited(max_tokens=menu + room))
    with pytest.raises(InputError, match=rf"max_tokens: the talent menu of 2 talents takes {menu} tokens") as caught:
        make_runner(in_turn(""), limited(max_tokens=menu + room - 1))
    assert "\n" not in str(caught.value)


def test_no_requests_no_episodes():
    assert make_runner(in_turn("")).run([], temperature=0.0) == []


def script(*texts, heard=None):
    """A teacher that says `texts` whatever it hears."""
    for text in texts:
        observation = yield text
        if heard is not None:
            heard.append(observation)


texts = st.sampled_from(
    ["<search>x</search>", "<answer>y</answer>", "<answer>n</answer>", "nothing", "<search>crash</search>"]
)


@given(st.lists(texts, min_size=1, max_size=6), st.integers(1, 4), st.integers(330, 460))
def test_a_teachers_episode_is_the_one_an_engine_would_have_made_with_the_same_words(said, turns, max_tokens):
    limits = limited(turns=turns, max_tokens=max_tokens)
    runner = make_runner(in_turn(*said), limits)
    asked = request(runner, "routed", "a")
    sampled = runner.run([asked], temperature=0.0)[0]
    played = runner.play(asked, lambda _: script(*said, *[said[-1]] * turns))
    zero = [0.0] * len(sampled.logprobs)
    assert dataclasses.replace(comparable(played), logprobs=zero) == dataclasses.replace(
        comparable(sampled), logprobs=zero
    )


def test_a_teacher_hears_the_observations():
    runner, heard = make_runner(in_turn("")), []
    runner.play(request(runner), lambda _: script("<search>x</search>", "?", "<answer>y</answer>", heard=heard))
    assert heard[0] == "<information>fact</information>"
    assert heard[1].startswith("No action found")
    assert len(heard) == 2


@pytest.mark.parametrize("said", [[], ["<search>x</search>"], ["?", "?"]])
def test_a_teacher_that_ends_without_an_answer_has_failed(said):
    runner = make_runner(in_turn(""))
    episode = runner.play(request(runner), lambda _: script(*said))
    assert (episode.value, episode.stop_reason) == (0.0, StopReason.TURN_LIMIT)
    assert len(episode.turns) == 3 + 2 * len(said)


def test_a_teachers_words_are_bound_by_the_turn_limit():
    runner = make_runner(in_turn(""), limited(turns=2))
    episode = runner.play(
        request(runner), lambda _: script("<search>x</search>", "<search>y</search>", "<answer>y</answer>")
    )
    assert (episode.searches, episode.value, episode.stop_reason) == (2, 0.0, StopReason.TURN_LIMIT)


def test_episode_ids_tell_rollouts_apart():
    runner = make_runner(in_turn("<answer>y</answer>"))
    requests = [
        RolloutRequest(Arm(task, intervention, talent), runner.set_routing(talent), m, 0)
        for task in (TASK, OTHER)
        for intervention, talent in (("forced", "a"), ("forced", "b"), ("null", None), ("skills_only", "a"))
        for m in range(2)
    ]
    episodes = runner.run(requests, temperature=0.0)
    assert len({episode.episode_id for episode in episodes}) == len(requests)


class Door(FragileEnvironment):
    """Opens with what stands there, and knows its commands."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.version = "door/1 abc"

    def reset(self) -> str:
        return "You see a door."

    def admissible(self) -> list[str]:
        return ["knock", "open"]

    def step(self, action):
        return Step("It is shut.")


def at_the_door():
    runner = make_runner(in_turn("<action>open</action>"))
    runner.environment = Door
    return runner


def test_the_first_observation_follows_the_talent_context_and_a_teacher_is_given_it():
    runner, given = at_the_door(), []
    episode = runner.run([request(runner)], temperature=0.0)[0]
    assert episode.turns[2].text == "Strategy: Be quick.\nread: Do it.\n\nYou see a door."
    assert (episode.environment, episode.turns[4].text) == ("door/1 abc", "It is shut.")
    runner.play(request(runner), lambda opening: (given.append(opening), script())[1])
    assert given == ["You see a door."]


def test_observations_end_with_the_admissible_commands_if_asked_for():
    runner = at_the_door()
    runner.show_admissible = True
    episode = runner.run([request(runner)], temperature=0.0)[0]
    assert episode.turns[2].text.endswith("You see a door.\nYou can: knock, open")
    assert episode.turns[4].text == "It is shut.\nYou can: knock, open"
    assert make_runner(in_turn("?")).run([request(runner)], 0.0)[0].turns[4].text.startswith("No action found")
