"""Replay: the router learns from the outcomes that a run gathered, with the gradient of the policy of now."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from learning_samples import (
    GOOD,
    TALENTS,
    FirstGradient,
    KillAfter,
    Killed,
    assert_same_weights,
    graded,
    probability,
    toy_runner,
    toy_settings,
    toy_tasks,
)

from talentrl.errors import InputError
from talentrl.learning.callbacks import StepMetrics
from talentrl.learning.replay import Contrast, contrasts, replay
from talentrl.learning.rl import train_rl
from talentrl.policy.model import load_model


def row(step: int, task: str, talent: str, value: float | None, intervention: str = "routed") -> dict[str, Any]:
    return {"step": step, "task_id": task, "talent": talent, "return": value, "intervention": intervention}


def test_contrasts_are_the_mean_returns_of_routed_arms_that_differ() -> None:
    first, second, third = tasks = toy_tasks(3)
    episodes = pl.DataFrame(
        [
            row(0, first.task_id, "blue", 1.0),
            row(0, first.task_id, "blue", 0.0),
            row(0, first.task_id, "gold", 0.0),
            row(0, first.task_id, "gold", None),
            row(0, first.task_id, "grey", 1.0, "strategy_only"),
            row(0, second.task_id, "blue", 0.25),
            row(0, second.task_id, "gold", 0.25),
            row(0, third.task_id, "blue", 1.0),
            row(0, third.task_id, "gold", None),
            row(1, second.task_id, "grey", 0.0),
            row(1, second.task_id, "pink", 1.0),
        ]
    )
    assert contrasts(episodes, {task.task_id: task for task in tasks}) == [
        Contrast(first, ["blue", "gold"], [0.5, 0.0]),
        Contrast(second, ["grey", "pink"], [0.0, 1.0]),
    ]


def test_contrasts_of_another_reward() -> None:
    (task,) = toy_tasks(1)
    rows = [row(0, task.task_id, talent, 0.0) | {"f1": f1} for talent, f1 in (("blue", 0.8), ("gold", 0.2))]
    assert contrasts(pl.DataFrame(rows), {task.task_id: task}) == []
    assert contrasts(pl.DataFrame(rows), {task.task_id: task}, "f1") == [Contrast(task, ["blue", "gold"], [0.8, 0.2])]


def test_a_step_is_the_hand_written_objective(tiny_model: Path, tmp_path: Path) -> None:
    """J = mean over tasks of Σ π_a (R_a − Σ_b π_b R_b) log π(a), π tempered and renormalised over the task's arms."""
    runner, (one, other) = toy_runner(tiny_model), toy_tasks(2)
    examples = [Contrast(one, ["blue", "gold", "grey"], [1.0, 0.5, 0.0]), Contrast(other, ["pink", "gold"], [0.0, 1.0])]
    settings = toy_settings(replay_epochs=1, replay_batch=2, routing_temperature=2.0)
    keep = FirstGradient()
    (entry,) = replay(runner, examples, settings, 0, tmp_path, [keep])
    model = load_model(tiny_model)
    values = []
    for contrast in examples:
        prompt = runner.prompt(contrast.task)
        logs = []
        for talent in contrast.talents:
            tag = runner.set_routing(talent).token_ids
            ids = torch.tensor([prompt + tag])
            steps = model(ids[:, :-1]).logits[0].log_softmax(-1).gather(1, ids[0, 1:, None])
            logs.append(steps[len(prompt) - 1 :].sum())
        returns = torch.tensor(contrast.returns)
        weights = torch.softmax(torch.stack(logs).detach() / 2, 0)
        values.append(float((torch.softmax(torch.stack(logs).detach(), 0) * returns).sum()))
        advantages = weights * (returns - (weights * returns).sum())
        (-(advantages * torch.stack(logs)).sum() / 2).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(keep.gradient[name], parameter.grad, atol=1e-6, rtol=1e-3)
    assert entry["replay/value"] == pytest.approx(sum(values) / 2, abs=1e-5)


@pytest.mark.parametrize("estimator", ["contrast_distinct", "all_action"])
def test_the_router_learns_from_what_one_online_step_gathered(tiny_model: Path, tmp_path: Path, estimator: str) -> None:
    settings = toy_settings(estimator=estimator, arms=4, rollouts=1, learning_rate=3e-3)
    found = []
    for epochs in (0, 20):
        runner = toy_runner(tiny_model, lambda episode: float(episode.talent == GOOD), turns=1, turn_tokens=1)
        values = settings.model_copy(update={"replay_epochs": epochs})
        folder = tmp_path / str(epochs)
        history, _ = train_rl(runner, toy_tasks(2), values, 0, folder / "scratch", folder / "out")
        found.append(probability(runner))
        assert [entry["step"] for entry in history] == list(range(1, len(history) + 1))
    assert found[0] < 0.5
    assert found[1] > 0.9


def test_resumed_replay_ends_where_an_uninterrupted_one_does(tiny_model: Path, tmp_path: Path) -> None:
    examples = [
        Contrast(task, list(TALENTS), [1.0 if talent == TALENTS[i % 4] else 0.0 for talent in TALENTS])
        for i, task in enumerate(toy_tasks(6))
    ]
    settings = toy_settings(replay_epochs=2, replay_batch=2, save_steps=2, learning_rate=3e-3)
    whole, killed, resumed = (toy_runner(tiny_model) for _ in range(3))
    replay(whole, examples, settings, 5, tmp_path / "whole")
    with pytest.raises(Killed):
        replay(killed, examples, settings, 5, tmp_path / "killed", [KillAfter(3)])
    replay(resumed, examples, settings, 5, tmp_path / "killed")
    for name, runner in (("one", whole), ("other", resumed)):
        runner.engine.model.save_pretrained(tmp_path / name)
    assert_same_weights(tmp_path / "one", tmp_path / "other")


def test_its_numbers_have_names_of_their_own(tiny_model: Path, tmp_path: Path) -> None:
    """Both parts of the stage log to one MLflow run, each from step 1."""
    seen: list[tuple[set[str], int]] = []
    log = StepMetrics(lambda metrics, step: seen.append((set(metrics), step)))
    runner = toy_runner(tiny_model, lambda episode: float(episode.talent == GOOD))
    settings = toy_settings(steps=2, replay_epochs=2, replay_batch=2)
    train_rl(runner, toy_tasks(2), settings, 0, tmp_path / "scratch", tmp_path / "out", [log])
    steps = [(names, step) for names, step in seen if names & {"loss", "replay/loss"}]
    assert [step for names, step in steps if "loss" in names] == [1, 2]
    assert [step for names, step in steps if "replay/loss" in names] == [1, 2]
    assert not any({"loss", "grad_norm", "learning_rate"} & names for names, _ in steps if "replay/loss" in names)


def test_a_run_without_contrasts_has_nothing_to_replay(tiny_model: Path, tmp_path: Path) -> None:
    runner = toy_runner(tiny_model, lambda episode: 1.0)
    settings = toy_settings(replay_epochs=3)
    history, _ = train_rl(runner, toy_tasks(2), settings, 0, tmp_path / "scratch", tmp_path / "out")
    assert len(history) == 1


def test_estimators_whose_gradient_grows_without_bound_are_refused(tiny_model: Path, tmp_path: Path) -> None:
    settings = toy_settings(estimator="shared", replay_epochs=2)
    with pytest.raises(InputError, match=r"rl\.replay_epochs: found 2 with rl\.estimator shared, expected 0"):
        train_rl(toy_runner(tiny_model, graded), toy_tasks(2), settings, 0, tmp_path / "s", tmp_path / "o")
