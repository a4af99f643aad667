"""The gradient that TRL's trainer really takes, against the objective written out by hand."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from learning_samples import (
    LOSS_TYPES,
    FirstGradient,
    Gradient,
    assert_close,
    graded,
    toy_runner,
    toy_settings,
    toy_tasks,
    weights,
)

from talentrl.config import RlSection
from talentrl.errors import InputError
from talentrl.learning.history import write_history
from talentrl.learning.rl import train_rl
from talentrl.policy.model import load_model
from talentrl.policy.parser import Action
from talentrl.rollouts.episode import Episode

MAXIMUM = 700


def first_step(
    folder: Path, scratch: Path, settings: RlSection, judge: Callable[[Episode], float | None] = graded
) -> tuple[Gradient, pl.DataFrame]:
    """The gradient of a whole first optimiser step of `train_rl`, and the episodes it was taken on."""
    keep = FirstGradient()
    runner = toy_runner(folder, judge)
    _, episodes = train_rl(runner, toy_tasks(3), settings, 5, scratch, scratch.parent / "out", [keep])
    return keep.gradient, episodes


def gradient_by_hand(folder: Path, settings: RlSection, episodes: pl.DataFrame) -> Gradient:
    """−∇(J_exec + β_route · J_route), each term in plain Python, each rollout in a forward pass of its own."""
    rows = list(episodes.iter_rows(named=True))
    for row in rows:
        first = row["rollout"] == 0
        row["trained"] = [
            action or (routing and first)
            for routing, action in zip(row["routing_mask"], row["action_mask"], strict=True)
        ]
    total = sum(sum(row["trained"]) for row in rows)
    arm_mean = {
        key: math.fsum(r["return"] for r in rows if (r["task_id"], r["arm_id"]) == key) / settings.rollouts
        for key in {(r["task_id"], r["arm_id"]) for r in rows}
    }
    task_mean = {
        task: math.fsum(r["return"] for r in rows if r["task_id"] == task) * settings.tasks / len(rows)
        for task, _ in arm_mean
    }
    routed = {(r["task_id"], r["arm_id"]) for r in rows if r["intervention"] == "routed"}
    probability = {(r["task_id"], r["arm_id"]): r["routing_probability"] for r in rows if r["intervention"] == "routed"}
    model = load_model(folder)
    for row in rows:
        key = (row["task_id"], row["arm_id"])
        ids = torch.tensor([row["token_ids"]])
        logits = model(ids[:, :-1]).logits[0]
        action = torch.tensor(row["action_mask"])[1:, None]
        tempered = torch.where(action, logits / settings.temperature, logits).log_softmax(-1)
        logprobs = torch.cat([torch.zeros(1), tempered.gather(1, ids[0, 1:, None]).squeeze(1)])
        share = {
            "grpo": 1 / (len(rows) * max(1, sum(row["trained"]))),
            "dapo": 1 / total,
            "dr_grpo": 1 / (len(rows) * MAXIMUM),
        }[settings.loss_type]
        advantage = row["return"] - (arm_mean[key] if settings.execution_baseline == "arm" else task_mean[key[0]])
        loss = -share * advantage * (logprobs * torch.tensor(row["action_mask"])).sum()
        if key in routed and row["rollout"] == 0:
            flatter = {arm: p ** (1 / settings.routing_temperature) for arm, p in probability.items()}
            arms = {arm: p for arm, p in flatter.items() if arm[0] == key[0]}
            weight = {arm: p / sum(arms.values()) for arm, p in arms.items()}
            contrast = weight[key] * (arm_mean[key] - sum(weight[arm] * arm_mean[arm] for arm in arms))
            span = (logprobs * torch.tensor(row["routing_mask"])).sum()
            loss = loss - settings.routing_weight / len({task for task, _ in routed}) * contrast * span
        loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("interventions", [[], ["null", "skills_only"]])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_a_step_over_two_tasks_is_the_hand_written_objective(
    tiny_model: Path, tmp_path: Path, loss_type: str, interventions: list[str]
) -> None:
    settings = toy_settings(loss_type=loss_type, routing_weight=0.7, interventions=interventions)
    found, episodes = first_step(tiny_model, tmp_path / "scratch", settings)
    assert episodes["task_id"].n_unique() == 2
    assert episodes["return"].n_unique() > 3
    assert_close(found, gradient_by_hand(tiny_model, settings, episodes))


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_executions_are_differentiated_at_the_temperature_they_were_sampled_at(
    tiny_model: Path, tmp_path: Path, loss_type: str
) -> None:
    settings = toy_settings(loss_type=loss_type, temperature=0.5, interventions=["null"])
    found, episodes = first_step(tiny_model, tmp_path / "scratch", settings)
    assert_close(found, gradient_by_hand(tiny_model, settings, episodes))


@pytest.mark.parametrize("rollouts", [1, 2])
def test_executions_compared_with_all_of_their_task(tiny_model: Path, tmp_path: Path, rollouts: int) -> None:
    """Also where an arm of one rollout has nothing of its own to be compared with."""
    settings = toy_settings(execution_baseline="task", rollouts=rollouts, arms=4 // rollouts, routing_weight=0.5)
    found, episodes = first_step(tiny_model, tmp_path / "scratch", settings)
    assert_close(found, gradient_by_hand(tiny_model, settings, episodes))
    execution = settings.model_copy(update={"routing_weight": 0.0})
    assert any((g != 0).any() for g in gradient_by_hand(tiny_model, execution, episodes).values())


@pytest.mark.parametrize("baseline", ["arm", "task"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_without_talents_execution_alone_is_trained(
    tiny_model: Path, tmp_path: Path, loss_type: str, baseline: str
) -> None:
    settings = toy_settings(
        arms=0, interventions=["null"], rollouts=4, loss_type=loss_type, execution_baseline=baseline
    )
    found, episodes = first_step(tiny_model, tmp_path / "scratch", settings)
    assert len(episodes) == 8 and set(episodes["intervention"]) == {"null"}
    assert not episodes["routing_mask"].explode().any()
    assert_close(found, gradient_by_hand(tiny_model, settings, episodes))


def test_a_run_without_talents_ends_with_numbers(tiny_model: Path, tmp_path: Path) -> None:
    """What says something of routing is left out of the history; it divides by no number of talents."""
    settings = toy_settings(arms=0, interventions=["null"], rollouts=2, steps=2, scale_rewards="group")
    history, episodes = train_rl(
        toy_runner(tiny_model, graded), toy_tasks(2), settings, 5, tmp_path / "scratch", tmp_path / "out"
    )
    assert len(history) == 2 and len(episodes) == 8
    write_history(tmp_path / "rl.json", history)
    for entry in json.loads((tmp_path / "rl.json").read_text()):
        assert all(math.isfinite(value) for value in entry.values())
        assert {"loss", "return", "execution/constant_arms", "routing/entropy", "step_time"} <= entry.keys()
        assert not {name for name in entry if name.startswith(("routing/regret", "routing/contrast"))}
    assert (weights(tmp_path / "out")["model.norm.weight"] != weights(tiny_model)["model.norm.weight"]).any()


def test_no_step_is_idle(tiny_model: Path, tmp_path: Path) -> None:
    settings = toy_settings(steps=4, warmup=0.5)
    history, _ = train_rl(toy_runner(tiny_model), toy_tasks(2), settings, 5, tmp_path / "scratch", tmp_path / "out")
    rates = [entry["learning_rate"] / settings.learning_rate for entry in history]
    assert rates == pytest.approx([0.5, 1.0, 0.55, 0.1])


def test_the_routing_term_is_the_same_under_every_loss_type(tiny_model: Path, tmp_path: Path) -> None:
    """One rollout an arm leaves no execution advantage, so what remains is β · J_route with its own normaliser."""
    found = [
        first_step(tiny_model, tmp_path / kind, toy_settings(loss_type=kind, rollouts=1, routing_weight=2.0))[0]
        for kind in LOSS_TYPES
    ]
    assert_close(found[1], found[0], 1e-5)
    assert_close(found[2], found[0], 1e-5)


def test_routing_weight_zero_leaves_the_execution_term(tiny_model: Path, tmp_path: Path) -> None:
    settings = toy_settings(routing_weight=0.0)
    found, episodes = first_step(tiny_model, tmp_path / "scratch", settings)
    assert_close(found, gradient_by_hand(tiny_model, settings, episodes))


def test_equal_returns_take_no_step(tiny_model: Path, tmp_path: Path) -> None:
    settings = toy_settings(scale_rewards="group", steps=2)
    found, _ = first_step(tiny_model, tmp_path / "scratch", settings, judge=lambda episode: 0.3)
    assert all((gradient == 0).all() for gradient in found.values())


def test_a_step_in_which_every_rollout_failed_is_survived(tiny_model: Path, tmp_path: Path) -> None:
    found, episodes = first_step(tiny_model, tmp_path / "scratch", toy_settings(), judge=lambda episode: None)
    assert episodes["return"].null_count() == len(episodes)
    assert all((gradient == 0).all() for gradient in found.values())


def test_failed_rollouts_do_not_train(tiny_model: Path, tmp_path: Path) -> None:
    def environment(task: Any) -> Any:
        if task.task_id == "task-":
            raise RuntimeError("no such world")
        return Mute()

    runner = toy_runner(tiny_model, graded, environment=environment)
    history, episodes = train_rl(runner, toy_tasks(2), toy_settings(steps=2), 5, tmp_path / "scratch", tmp_path / "out")
    assert [entry["execution/failed"] for entry in history] == [0.5, 0.5]
    assert episodes.filter(pl.col("return").is_null())["task_id"].unique().to_list() == ["task-"]


class Mute:
    """An environment that says nothing."""

    version = "mute/1"

    def reset(self) -> str:
        return ""

    def admissible(self) -> None:
        return None

    def step(self, action: Action | None) -> Any:
        from talentrl.environments.environment import Step

        return Step("")

    def outcome(self) -> Any:
        from talentrl.environments.environment import Outcome

        return Outcome(0.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tasks": 3}, r"rl\.tasks: found 3 a step, but there are 2 tasks"),
        ({"estimator": "contrast_null"}, r"rl\.interventions: found \[\], but estimator contrast_null"),
        ({"kl": 0.1, "temperature": 0.5}, r"rl\.temperature: found 0\.5 with rl\.kl 0\.1, expected 1"),
        ({"arms": 1, "rollouts": 1}, r"rl\.arms and rl\.rollouts: found 1 a task, expected at least two"),
    ],
)
def test_settings_that_would_train_nothing_are_one_clear_line(
    tiny_model: Path, tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train_rl(toy_runner(tiny_model), toy_tasks(2), toy_settings(**values), 0, tmp_path / "s", tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_each_step_samples_from_the_current_weights(tiny_model: Path, tmp_path: Path) -> None:
    """No key or value of an earlier step's weights is used again."""
    for steps in (1, 2):
        folder = tmp_path / str(steps)
        settings = toy_settings(steps=steps, learning_rate=0.02, warmup=1 / steps)  # the same first step
        _, episodes = train_rl(toy_runner(tiny_model, graded), toy_tasks(2), settings, 5, folder, folder / "out")
    model = load_model(tmp_path / "1" / "out")
    for row in episodes.filter(pl.col("step") == 1).iter_rows(named=True):
        ids = torch.tensor([row["token_ids"]])
        with torch.no_grad():
            logprobs = model(ids[:, :-1]).logits.log_softmax(-1)[0].gather(1, ids[0, 1:, None]).squeeze(1)
        sampled = torch.tensor(row["routing_mask"]) | torch.tensor(row["action_mask"])
        recorded = torch.tensor(row["logprobs"])
        torch.testing.assert_close(recorded[sampled], logprobs[sampled[1:]], atol=1e-4, rtol=0)


def test_a_step_is_logged_with_its_numbers(tiny_model: Path, tmp_path: Path) -> None:
    (entry,), _ = train_rl(
        toy_runner(tiny_model, graded), toy_tasks(2), toy_settings(), 5, tmp_path / "scratch", tmp_path / "out"
    )
    assert entry["sampling/importance_sampling_ratio/max"] == pytest.approx(1.0, abs=1e-4)
    assert 0 < entry["routing/entropy"] < math.log(4)
    assert entry["routing/invalid_rate"] == pytest.approx(1.0)  # a random model writes no tag
    assert sum(value for name, value in entry.items() if name.startswith("routing/probability/")) == pytest.approx(1.0)
    assert 0 < entry["tokens/sampled"] < entry["tokens/forwarded"]
    seconds = {name: entry[f"seconds/{name}"] for name in ("generation", "retrieval", "environment", "sync")}
    assert seconds.pop("sync") == 0
    assert all(value > 0 for value in seconds.values())
    assert sum(seconds.values()) < entry["seconds/rollouts"]
    parts = [entry[f"seconds/{name}"] for name in ("rollouts", "forward", "backward")]
    assert all(value > 0 for value in parts)
    assert sum(parts) < entry["step_time"] * 1.01


def test_frozen_layers_get_no_gradient(tiny_model: Path, tmp_path: Path) -> None:
    found, _ = first_step(tiny_model, tmp_path / "scratch", toy_settings(frozen_layers=1))
    assert found
    assert all(name.startswith(("model.layers.1", "model.norm")) for name in found)
