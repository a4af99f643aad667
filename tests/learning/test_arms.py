"""Drawing arms, and turning their rollouts into an advantage for every token."""

import math
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from learning_samples import TALENTS, ToyRunner, graded, toy_runner, toy_settings, toy_tasks

from talentrl.config import Estimator
from talentrl.learning.advantages import row_coefficients
from talentrl.learning.arms import (
    Arms,
    arms_per_task,
    collect,
    step_metrics,
    token_advantages,
    trained_masks,
)
from talentrl.rollouts.episode import StopReason

MAXIMUM = 700


@pytest.fixture(scope="module")
def runner(tiny_model: Path) -> ToyRunner:
    return toy_runner(tiny_model, graded)


def collected(runner: ToyRunner, tasks: int = 2, seed: int = 0, **settings: Any) -> tuple[Arms, Any]:
    section = toy_settings(**settings)
    return collect(runner, toy_tasks(tasks), section, seed), section


def test_arms_of_a_task_are_distinct_talents_and_then_the_interventions(runner: ToyRunner) -> None:
    arms, settings = collected(runner, arms=3, interventions=["null", "strategy_only", "skills_only"])
    assert arms_per_task(settings, len(TALENTS)) == 6
    for start in (0, 12):
        task = arms.episodes[start : start + 12]
        assert len({episode.task_id for episode in task}) == 1
        assert [e.rollout for e in task] == [0, 1] * 6
        assert [e.intervention for e in task[::2]] == ["routed"] * 3 + ["null", "strategy_only", "skills_only"]
        talents = [e.talent for e in task[::2]]
        assert len(set(talents[:3])) == 3
        assert talents[3:] == [None, talents[0], talents[0]]
    assert arms.routed_TA.tolist() == [[True] * 3 + [False] * 3] * 2
    assert arms.null_TA.tolist() == [[False] * 3 + [True, False, False]] * 2


def test_no_more_arms_than_talents_and_all_action_takes_every_talent(runner: ToyRunner) -> None:
    assert arms_per_task(toy_settings(arms=9), 4) == 4
    assert arms_per_task(toy_settings(arms=2, estimator="all_action", interventions=["null"]), 4) == 5
    arms, _ = collected(runner, estimator="all_action", rollouts=1)
    for start in (0, 4):
        assert {episode.talent for episode in arms.episodes[start : start + 4]} == set(TALENTS)
    torch.testing.assert_close(arms.probabilities_TA.sum(1), torch.ones(2))


@pytest.mark.parametrize("estimator", ["contrast_loo", "contrast_null", "terminal", "shared"])
def test_independent_draws_may_repeat_a_talent_with_other_seeds_and_a_span_of_its_own(
    runner: ToyRunner, estimator: str
) -> None:
    arms, settings = collected(runner, tasks=1, estimator=estimator, arms=9)  # more than there are talents
    assert arms_per_task(settings, len(TALENTS)) == 9
    assert len({episode.episode_id for episode in arms.episodes}) == 18
    by_talent = {t: [e for e in arms.episodes if e.talent == t] for t in TALENTS}
    for episodes in by_talent.values():
        assert [e.rollout for e in episodes] == list(range(len(episodes)))
        assert len({e.seed for e in episodes}) == len(episodes)
    spans = [
        any(mask[: episode.routing_mask[episode.prompt_tokens :].index(False)])
        for episode, mask in zip(arms.episodes, trained_masks(arms), strict=True)
    ]
    assert spans == [True, False] * 9


@pytest.mark.parametrize("estimator", ["contrast_loo", "terminal"])
def test_independent_draws_follow_the_tempered_probabilities(runner: ToyRunner, estimator: str) -> None:
    arms, _ = collected(runner, tasks=1, estimator=estimator, arms=600, rollouts=1)
    chances = dict(zip((e.talent for e in arms.episodes), arms.probabilities_TA[0].tolist(), strict=True))
    counts = Counter(episode.talent for episode in arms.episodes)
    for talent, chance in chances.items():
        assert abs(counts[talent] / 600 - chance) < 4 * (chance * (1 - chance) / 600) ** 0.5 + 0.005, talent


def test_groups_are_keyed_by_ids_even_when_two_tasks_read_the_same(runner: ToyRunner) -> None:
    arms, _ = collected(runner)
    one, other = arms.episodes[:4], arms.episodes[4:]
    assert one[0].instruction == other[0].instruction
    prompts = {tuple(e.token_ids[: e.prompt_tokens]) for e in arms.episodes}
    assert len(prompts) == 1
    assert {e.task_id for e in one} != {e.task_id for e in other}
    assert len({e.episode_id for e in arms.episodes}) == 8
    for episode, value in zip(arms.episodes, [1, 1, 1, 1, 0, 0, 0, 0], strict=True):
        episode.value = float(value)
    # One task always succeeds, the other never: nothing was learnt about either, under groups of their own.
    assert all((values == 0).all() for values in token_advantages(arms, toy_settings(), MAXIMUM))


def test_rollout_m_of_every_arm_has_the_same_seed(runner: ToyRunner) -> None:
    arms, _ = collected(runner, interventions=["null"])
    seeds = {(e.task_id, e.rollout, e.seed) for e in arms.episodes}
    assert len(seeds) == 4 == len({seed for *_, seed in seeds})


def test_collect_repeats_itself_and_depends_on_the_seed(runner: ToyRunner) -> None:
    def ids(seed: int) -> list[list[int]]:
        runner.engine.reset()
        return [episode.token_ids for episode in collected(runner, seed=seed)[0].episodes]

    assert ids(3) == ids(3)
    assert ids(3) != ids(4)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_distinct_arms_are_drawn_by_their_tempered_probability(runner: ToyRunner, temperature: float) -> None:
    """The first arm is a draw from π^(1/temperature), so its share of 400 draws is near that."""
    scored = runner.score_talents(toy_tasks(1))[0]
    chances = {talent: (turn.probability or 0.0) ** (1 / temperature) for talent, turn in scored.items()}
    total = sum(chances.values())
    first: Counter[str | None] = Counter()
    runner_run, runner.run = (
        runner.run,
        lambda requests, temperature, progress="": [  # type: ignore[method-assign]
            runner.new_episode(request) for request in requests
        ],
    )
    try:
        for seed in range(400):
            arms, _ = collected(runner, tasks=1, seed=seed, arms=2, rollouts=1, routing_temperature=temperature)
            first[arms.episodes[0].talent] += 1
    finally:
        runner.run = runner_run  # type: ignore[method-assign]
    last = [chances[episode.talent or ""] / total for episode in arms.episodes]
    assert arms.probabilities_TA[0].tolist() == pytest.approx(last)  # also what weights them
    for talent, chance in chances.items():
        p = chance / total
        assert abs(first[talent] / 400 - p) < 4 * (p * (1 - p) / 400) ** 0.5 + 0.005, talent


def test_routing_tokens_carry_loss_once_an_arm_and_never_when_they_were_set(runner: ToyRunner) -> None:
    arms, _ = collected(runner, interventions=["null", "strategy_only"])
    for episode, mask in zip(arms.episodes, trained_masks(arms), strict=True):
        tag = f"<talent>{episode.talent or 'none'}</talent>"
        completion = episode.token_ids[episode.prompt_tokens :]
        assert runner.chat.decode(completion[: len(tag)]) == tag
        counted = episode.intervention == "routed" and episode.rollout == 0
        assert mask[: len(tag)] == [int(counted)] * len(tag)
        sampled = [int(action) for action in episode.action_mask[episode.prompt_tokens :]]
        assert mask[len(tag) :] == sampled[len(tag) :]
        assert 0 < sum(sampled) < len(sampled) - len(tag)  # context and observations are between


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo"])
@pytest.mark.parametrize("estimator", get_args(Estimator))
def test_advantages_stand_on_trained_tokens_only(runner: ToyRunner, estimator: str, loss_type: str) -> None:
    arms, settings = collected(
        runner, estimator=estimator, loss_type=loss_type, interventions=["null"], scale_rewards="group"
    )
    advantages = token_advantages(arms, settings, MAXIMUM)
    for episode, values, mask in zip(arms.episodes, advantages, trained_masks(arms), strict=True):
        assert len(values) == len(episode.token_ids) - episode.prompt_tokens
        assert (values[torch.tensor(mask) == 0] == 0).all()
    assert any((values != 0).any() for values in advantages)


def test_literal_advantages_of_one_task(runner: ToyRunner) -> None:
    """Two arms × two rollouts with returns (1, 0) and (0, 0): A_route = ±π(1−π)/2; A_exec = ±½ in the first arm."""
    arms, settings = collected(runner, tasks=1, routing_weight=3.0, loss_type="dr_grpo")
    for episode, value in zip(arms.episodes, [1.0, 0.0, 0.0, 0.0], strict=True):
        episode.value = value
    p = float(arms.probabilities_TA[0, 0] / arms.probabilities_TA[0].sum())
    route = 3.0 * p * (1 - p) * 0.5 * (4 * MAXIMUM)  # β A_route of one task, over what TRL's loss will multiply with
    expected = [(route, 0.5), (0.0, -0.5), (-route, 0.0), (0.0, 0.0)]
    for episode, values, (routing, execution) in zip(
        arms.episodes, token_advantages(arms, settings, MAXIMUM), expected, strict=True
    ):
        after = slice(episode.prompt_tokens, None)
        spelled = [
            routing if r else execution if a else 0.0
            for r, a in zip(episode.routing_mask[after], episode.action_mask[after], strict=True)
        ]
        torch.testing.assert_close(values, torch.tensor(spelled))


@pytest.mark.parametrize("settings", [{"estimator": "shared"}, {"execution_baseline": "task"}])
def test_executions_may_be_compared_with_all_of_their_task(runner: ToyRunner, settings: dict[str, str]) -> None:
    arms, section = collected(runner, tasks=1, routing_weight=0.0, **settings)
    for episode, value in zip(arms.episodes, [1.0, 0.0, 0.0, 0.0], strict=True):
        episode.value = value
    for episode, values in zip(arms.episodes, token_advantages(arms, section, MAXIMUM), strict=True):
        action = torch.tensor(episode.action_mask[episode.prompt_tokens :])
        assert (values[action] == (episode.value or 0.0) - 0.25).all()


@pytest.mark.parametrize("scale", ["none", "batch", "group"])
@pytest.mark.parametrize("estimator", sorted({*get_args(Estimator)} - {"all_action"}))
def test_without_drawn_arms_routing_has_no_advantage(runner: ToyRunner, estimator: str, scale: str) -> None:
    """One arm a task, of the null talent: executions are compared inside it, and no tag carries loss."""
    arms, settings = collected(
        runner, arms=0, interventions=["null"], rollouts=4, estimator=estimator, scale_rewards=scale
    )
    assert arms_per_task(settings, len(TALENTS)) == 1 and arms.routed_TA.tolist() == [[False]] * 2
    assert [e.rollout for e in arms.episodes] == [0, 1, 2, 3] * 2 and {e.talent for e in arms.episodes} == {None}
    advantages = token_advantages(arms, settings, MAXIMUM)
    for episode, values, mask in zip(arms.episodes, advantages, trained_masks(arms), strict=True):
        action = torch.tensor(episode.action_mask[episode.prompt_tokens :])
        assert values.isfinite().all() and (values[~action] == 0).all()
        assert mask == action.int().tolist()
    assert any((values != 0).any() for values in advantages)
    metrics = step_metrics(arms)
    assert metrics["routing/probability_of_drawn"] == 0.0 and math.isnan(metrics["routing/regret"])
    assert metrics["return"] == pytest.approx(sum(e.value or 0.0 for e in arms.episodes) / 8)


def test_the_baseline_of_executions_does_not_touch_routing(runner: ToyRunner) -> None:
    arms, _ = collected(runner, tasks=1)
    for episode, value in zip(arms.episodes, [1.0, 0.0, 0.5, 0.0], strict=True):
        episode.value = value
    found = {
        within: token_advantages(arms, toy_settings(execution_baseline=within), MAXIMUM) for within in ("arm", "task")
    }
    for episode, inside, across in zip(arms.episodes, found["arm"], found["task"], strict=True):
        action = torch.tensor(episode.action_mask[episode.prompt_tokens :])
        torch.testing.assert_close(inside[~action], across[~action])
        arm, task = 0.5 if episode.arm_id == arms.episodes[0].arm_id else 0.25, 0.375
        torch.testing.assert_close(across[action] - inside[action], torch.full_like(inside[action], arm - task))


@pytest.mark.parametrize("failed", [[0], [0, 1], [0, 1, 2, 3], list(range(8))])
def test_failed_rollouts_teach_nothing_and_break_nothing(runner: ToyRunner, failed: list[int]) -> None:
    arms, settings = collected(runner, scale_rewards="group")
    for row in failed:
        arms.episodes[row].value = None
    advantages = token_advantages(arms, settings, MAXIMUM)
    for row, (episode, values) in enumerate(zip(arms.episodes, advantages, strict=True)):
        assert values.isfinite().all()
        if row in failed:
            assert (values[torch.tensor(episode.action_mask[episode.prompt_tokens :])] == 0).all()
    if len(failed) > 1:  # a whole arm is gone, and the other has nothing to be compared with
        assert all((values == 0).all() for values in advantages[: len(failed)])
    metrics = step_metrics(arms)
    assert metrics["execution/failed"] == len(failed) / 8


def test_step_metrics_hand_worked(runner: ToyRunner) -> None:
    arms, _ = collected(runner)
    returns = [1.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, None]
    for episode, value in zip(arms.episodes, returns, strict=True):
        episode.value = value
    arms.probabilities_TA = torch.tensor([[0.2, 0.6], [0.5, 0.25]])
    found = step_metrics(arms)
    expected = {
        "return": 2.5 / 7,
        "routing/probability_of_drawn": (0.8 + 0.75) / 2,
        "routing/regret": (0.5 - 0.5 * 0.25) / 2,
        "routing/arm_spread": 0.25,
        "routing/equal_arms": 0.5,
        "execution/constant_arms": 0.5,
        "execution/failed": 1 / 8,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_a_talent_that_is_drawn_twice_counts_once(runner: ToyRunner) -> None:
    """Arms blue, blue, gold with probabilities .6, .6, .2 and means 1, 0, 1: the drawn talents have .8, of which blue's
    .6 earn .5 and gold's .2 earn 1."""
    arms, _ = collected(runner, tasks=1, estimator="terminal", arms=3, rollouts=1)
    talents, returns = ["blue", "blue", "gold"], [1.0, 0.0, 1.0]
    for episode, talent, value in zip(arms.episodes, talents, returns, strict=True):
        episode.talent, episode.arm_id, episode.value = talent, f"routed:{talent}", value
    arms.probabilities_TA = torch.tensor([[0.6, 0.6, 0.2]])
    found = step_metrics(arms)
    assert found["routing/probability_of_drawn"] == pytest.approx(0.8)
    assert found["routing/regret"] == pytest.approx(1 - (0.6 * 0.5 + 0.2) / 0.8)


def test_metrics_of_the_policy_hand_worked(runner: ToyRunner) -> None:
    """Two tasks: an even choice between two talents that are tagged half of the time, and a sure one."""
    arms, _ = collected(runner)
    arms.tags_TZ = torch.tensor([[0.25, 0.25, 0.0, 0.0], [0.0, 0.9, 0.0, 0.0]]).clamp(min=1e-30).log()
    found = step_metrics(arms)
    assert found["routing/entropy"] == pytest.approx(math.log(2) / 2)
    assert found["routing/invalid_rate"] == pytest.approx((0.5 + 0.1) / 2)
    shares = [found[f"routing/probability/{talent}"] for talent in TALENTS]
    assert shares == pytest.approx([0.25, 0.75, 0, 0], abs=1e-6)


def test_the_policy_is_that_of_the_sampled_routing_turns(runner: ToyRunner) -> None:
    arms, _ = collected(runner, estimator="all_action", routing_temperature=2.0, rollouts=1)
    for task, tags in enumerate(arms.tags_TZ.exp().tolist()):
        drawn = {e.talent: e.routing_probability for e in arms.episodes[4 * task : 4 * task + 4]}
        assert [drawn[talent] for talent in arms.talents] == pytest.approx(tags)


def test_contrast_by_talent_hand_worked(runner: ToyRunner) -> None:
    """`blue` beats its task by .25 and loses by .25; `gold` is drawn once; the null arm is no part of the mean."""
    arms, _ = collected(runner, interventions=["null"])
    talents = ["blue", "gold", None, "blue", "pink", None]
    returns = [1.0, 1.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0, None, 1.0, 1.0]
    for row, (episode, value) in enumerate(zip(arms.episodes, returns, strict=True)):
        episode.talent, episode.value = talents[row // 2], value
    found = {k: v for k, v in step_metrics(arms).items() if k.startswith("routing/contrast")}
    expected = {
        "routing/contrast/blue": (0.25 - 0.5) / 2,
        "routing/contrast/gold": -0.25,
        "routing/contrast/pink": 0.5,
        "routing/contrast_spread/blue": 0.375,
        "routing/contrast_spread/gold": 0.0,
        "routing/contrast_spread/pink": 0.0,
    }
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("interventions", [["null"], ["null", "strategy_only"]])
@pytest.mark.parametrize("rollouts", [1, 2])
def test_every_estimator_spends_the_same_rollouts(runner: ToyRunner, rollouts: int, interventions: list[str]) -> None:
    """(arms + interventions) × rollouts a task; only `all_action` takes every talent for an arm."""
    for estimator in get_args(Estimator):
        arms, _ = collected(runner, estimator=estimator, arms=3, rollouts=rollouts, interventions=interventions)
        drawn = len(TALENTS) if estimator == "all_action" else 3
        assert len(arms.episodes) == 2 * (drawn + len(interventions)) * rollouts, estimator


def test_a_task_that_failed_altogether_counts_for_no_routing_metric(runner: ToyRunner) -> None:
    arms, _ = collected(runner)
    for episode, value in zip(arms.episodes, [1.0, 1.0, 0.0, 0.0] + [None] * 4, strict=True):
        episode.value = value
    found = step_metrics(arms)
    share = float(arms.probabilities_TA[0, 1] / arms.probabilities_TA[0].sum())
    assert found["routing/regret"] == pytest.approx(share)
    assert found["routing/arm_spread"] == 1.0
    assert found["routing/equal_arms"] == 0.0


def test_the_reward_may_be_f1(runner: ToyRunner) -> None:
    arms, settings = collected(runner, tasks=1, reward="f1")
    for episode, f1 in zip(arms.episodes, [0.8, 0.2, 0.5, None], strict=True):
        episode.value, episode.f1 = 0.0, f1
    assert arms.returns_TAM.tolist()[0][0] == pytest.approx([0.8, 0.2])
    assert step_metrics(arms)["return"] == pytest.approx(0.5)
    first, second = token_advantages(arms, settings, MAXIMUM)[:2]
    action = torch.tensor(arms.episodes[0].action_mask[arms.episodes[0].prompt_tokens :])
    assert first[action].tolist() == pytest.approx([0.3] * int(action.sum()))
    assert float(second.min()) == pytest.approx(-0.3)


def test_an_environment_that_raises_is_a_failed_rollout(tiny_model: Path) -> None:
    def broken(task: Any) -> Any:
        raise RuntimeError("no such world")

    arms, settings = collected(toy_runner(tiny_model, environment=broken))
    assert {e.stop_reason for e in arms.episodes} == {StopReason.ERROR}
    assert arms.returns_TAM.isnan().all()
    assert all((values == 0).all() for values in token_advantages(arms, settings, MAXIMUM))


def test_coefficients_count_the_tokens_that_carry_loss(runner: ToyRunner) -> None:
    arms, settings = collected(runner, tasks=1, loss_type="grpo", routing_weight=1.0)
    for episode, value in zip(arms.episodes, [1.0, 1.0, 0.0, 0.0], strict=True):
        episode.value = value
    counts = torch.tensor([float(sum(mask)) for mask in trained_masks(arms)])
    assert counts[0] > counts[1]  # the second copy of the routing span is not counted
    first = token_advantages(arms, settings, MAXIMUM)[0]
    p = float(arms.probabilities_TA[0, 0] / arms.probabilities_TA[0].sum())
    route = p * (1 - p) / float(row_coefficients("grpo", counts, MAXIMUM)[0])
    assert float(first.max()) == pytest.approx(route, rel=1e-5)
