"""Which conversations a scripted teacher's measured arms become."""

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from learning_samples import TALENTS, ToyRunner, toy_runner, toy_tasks

from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError
from talentrl.learning.demonstrations import choose_conversations, lint_demonstrations, measure_arms
from talentrl.rollouts.episode import Episode, SkillScore

BEST = {0: "gold", 1: "pink", 2: "blue"}


def number(task: Task) -> int:
    return len(task.task_id) - len("task-")


def teacher(task: Task, talent: str, opening: str) -> Generator[str, str, None]:
    """Right with one talent a task (any of two on task 3, the one of fewer turns on task 4, none on task 5)."""
    yield "<search>way</search>"
    right = {3: ("grey", "pink"), 4: ("blue", "gold"), 5: ()}.get(number(task), (BEST.get(number(task)),))
    if (number(task), talent) == (4, "blue"):
        yield "<search>way again</search>"
    yield f"<answer>{'yes' if talent in right else 'no'}</answer>"


@pytest.fixture(scope="module")
def runner(tiny_model: Path) -> ToyRunner:
    return toy_runner(tiny_model, turns=3, turn_tokens=40)


@pytest.fixture(scope="module")
def measured(runner: ToyRunner) -> list[list[Episode]]:
    return measure_arms(runner, teacher, toy_tasks(6), seed=1)


def choose(
    runner: ToyRunner,
    measured: list[list[Episode]],
    tasks: list[Task] | None = None,
    forced_arms: int = 0,
    null_share: float = 0.0,
    seed: int = 1,
) -> list[Episode]:
    return choose_conversations(runner, teacher, tasks or toy_tasks(6), measured, forced_arms, null_share, seed)


def test_every_talent_is_played_on_every_task_also_where_it_fails(measured: list[list[Episode]]) -> None:
    assert [[episode.talent for episode in task] for task in measured] == [list(TALENTS)] * 6
    returns = [{episode.talent: episode.value for episode in task} for task in measured]
    assert returns[0] == {"blue": 0.0, "gold": 1.0, "grey": 0.0, "pink": 0.0}
    assert returns[4] == {"blue": 1.0, "gold": 1.0, "grey": 0.0, "pink": 0.0}
    assert set(returns[5].values()) == {0.0}
    assert {episode.intervention for task in measured for episode in task} == {"forced"}
    assert not any(any(episode.routing_mask) for task in measured for episode in task)


def test_the_target_is_the_arm_that_did_best(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    chosen = {number(task): None for task in toy_tasks(6)} | {
        len(episode.task_id) - 5: episode for episode in choose(runner, measured)
    }
    assert chosen[5] is None  # every arm fails: no target
    for task, talent in BEST.items():
        episode = chosen[task]
        assert episode is not None
        assert (episode.talent, episode.intervention, episode.value) == (talent, "routed", 1.0)
        assert any(episode.routing_mask)
    assert chosen[3] is not None
    assert chosen[3].talent in ("grey", "pink")
    assert chosen[4] is not None
    assert chosen[4].talent == "gold"  # as good as blue, in fewer turns


def test_ties_are_broken_by_lot(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    talents = {choose(runner, [measured[3]], [toy_tasks(4)[3]], seed=seed)[0].talent for seed in range(12)}
    assert talents == {"grey", "pink"}


def test_other_arms_teach_execution_with_their_routing_masked(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    conversations = choose(runner, measured, forced_arms=1)
    assert len(conversations) == 5 * 2
    for best, other in zip(conversations[::2], conversations[1::2], strict=True):
        assert other.task_id == best.task_id
        assert other.talent != best.talent
        assert other.intervention == "forced"
        assert not any(other.routing_mask)
    two, all_of_them = (choose(runner, measured[:1], toy_tasks(1), forced_arms=number) for number in (2, 9))
    assert len({e.talent for e in two}) == 3
    assert {e.talent for e in all_of_them} == set(TALENTS)


def test_conversations_of_a_task_share_their_prompt(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    conversations = choose(runner, measured, forced_arms=1)
    for one, other in zip(conversations[::2], conversations[1::2], strict=True):
        assert one.token_ids[: one.prompt_tokens] == other.token_ids[: other.prompt_tokens]


def test_a_wrong_answer_is_not_taught_but_the_way_to_it_is(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    forced = [
        episode
        for seed in range(8)
        for episode in choose(runner, measured, forced_arms=1, seed=seed)
        if episode.intervention == "forced"
    ]

    def taught(episode: Episode) -> str:
        pairs = zip(episode.token_ids, episode.action_mask, strict=True)
        return runner.chat.decode([token for token, action in pairs if action])

    right = [taught(episode) for episode in forced if episode.value == 1.0]
    wrong = [taught(episode) for episode in forced if episode.value == 0.0]
    assert right and all(text.endswith("<answer>yes</answer>") for text in right)
    assert wrong and not any("<answer>" in text for text in wrong)
    assert any("<search>" in text for text in wrong)


def test_a_share_is_told_without_a_talent(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    told = choose(runner, measured, null_share=1.0)
    assert [episode.intervention for episode in told] == ["null"] * 5
    for episode in told:
        assert episode.talent is None
        assert not any(episode.routing_mask)
        assert any(episode.action_mask)
        assert episode.value == 1.0
        assert episode.turns[1].text == "<talent>none</talent>"
        assert "Strategy" not in episode.turns[2].text
    many = [toy_tasks(1)[0]] * 300
    tasks = [replace(task, task_id=f"task{i}") for i, task in enumerate(many)]
    shares = choose(runner, [measured[0]] * 300, tasks, null_share=0.25)
    assert 0.17 < sum(e.intervention == "null" for e in shares) / 300 < 0.33


def test_menus_are_shuffled_and_complete(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    def menu(episode: Episode) -> tuple[str, ...]:
        text = runner.chat.decode(episode.token_ids[: episode.prompt_tokens])
        places = {talent: text.find(f"\n{talent}: ") for talent in TALENTS}
        assert min(places.values()) > 0
        return tuple(sorted(places, key=lambda talent: places[talent]))

    orders = {menu(episode) for seed in range(4) for episode in choose(runner, measured, seed=seed)}
    assert len(orders) > 10
    assert len({order[0] for order in orders}) == len(TALENTS)


def test_the_choice_repeats_itself(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    one, other = choose(runner, measured, forced_arms=1), choose(runner, measured, forced_arms=1)
    assert [e.token_ids for e in one] == [e.token_ids for e in other]
    assert [e.token_ids for e in one] != [e.token_ids for e in choose(runner, measured, forced_arms=1, seed=2)]


def test_lint_measures_a_good_set(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    conversations = choose(runner, measured, forced_arms=1)
    found = lint_demonstrations(runner, conversations)
    assert found["conversations"] == 10
    assert found["tokens"] == sum(len(e.token_ids) for e in conversations)
    assert found["longest"] == max(len(e.token_ids) for e in conversations)
    assert sum(found["targets"].values()) == 5
    assert set(found["targets"]) == set(TALENTS)
    assert found["targets_with_associated_skill"] == 1.0
    assert found["null_conversations"] == 0


def test_lint_refuses_a_set_without_targets(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    with pytest.raises(InputError, match="no routing target"):
        lint_demonstrations(runner, [])


def test_a_set_told_without_talents_is_one_to_train_on(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    found = lint_demonstrations(runner, choose(runner, measured, null_share=1.0, forced_arms=0))
    assert found["null_conversations"] == found["conversations"] > 0
    assert found["targets_with_associated_skill"] is None


def test_lint_refuses_conversations_that_were_cut_short(
    tiny_model: Path, runner: ToyRunner, measured: list[list[Episode]]
) -> None:
    good = choose(runner, measured)
    short = toy_runner(tiny_model, turns=3, turn_tokens=40, max_tokens=len(good[0].token_ids) - 10)
    cut = choose(short, measured)
    assert {episode.stop_reason for episode in cut} == {"token_limit"}
    with pytest.raises(InputError, match=f"5 conversations were cut short by a limit, .*{cut[0].episode_id}"):
        lint_demonstrations(runner, cut)


def test_lint_refuses_targets_without_an_associated_skill(runner: ToyRunner, measured: list[list[Episode]]) -> None:
    stray = [SkillScore("skill-none", 1.0, 0.0, 0.0, 0.0)]
    with pytest.raises(InputError, match="no target's context holds a skill associated"):
        lint_demonstrations(runner, [replace(e, skills=stray) for e in choose(runner, measured)])
