"""Replay of routing contrasts: the last part of the reinforcement stage.

The outcome of a rollout costs seconds, a routing update on it some hundredths of one. So the arms that the online steps
drew are kept with their mean returns, and the router takes the gradient of `contrast_distinct` or `all_action` on
them again, weighted by its probabilities of now. The returns are those of then: the executor is taken to have changed
little.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import polars as pl
import torch
from transformers import Trainer, TrainingArguments

from talentrl.benchmarks.taskset import Task
from talentrl.config import ModelSection, RlSection
from talentrl.learning.advantages import routing_advantages
from talentrl.learning.arguments import REINFORCEMENT_SCHEDULE, shared_arguments
from talentrl.learning.resuming import EpochOrder, train_or_resume
from talentrl.policy.engine import TrainableEngine
from talentrl.policy.prefix_tree import tree_log_probabilities
from talentrl.rollouts.runner import RolloutRunner


@dataclass(frozen=True)
class Contrast:
    """The talents that were drawn for a task in one step, and the mean return of each."""

    task: Task
    talents: list[str]
    returns: list[float]


def contrasts(episodes: pl.DataFrame, tasks: dict[str, Task], reward: str = "return") -> list[Contrast]:
    """The contrasts in `episodes` (with a `step` column) whose arms differ; failed rollouts do not count."""
    arms = (
        episodes.filter(intervention="routed")
        .group_by("step", "task_id", "talent", maintain_order=True)
        .agg(pl.col(reward).mean().alias("return"))
        .drop_nulls("return")
        .group_by("step", "task_id", maintain_order=True)
        .agg("talent", "return")
        .filter(pl.col("return").list.n_unique() > 1)
    )
    return [Contrast(tasks[row["task_id"]], row["talent"], row["return"]) for row in arms.iter_rows(named=True)]


def replay(
    runner: RolloutRunner,
    examples: Sequence[Contrast],
    settings: RlSection,
    seed: int,
    scratch: Path,
    callbacks: list[Any] | None = None,
    model_settings: ModelSection = ModelSection(),
) -> list[dict[str, float]]:
    """Train the router of `runner`'s model on `examples`, `settings.replay_epochs` times each.

    Resumes from the newest checkpoint in `scratch`, as the online steps do.

    Returns:
        One dict a step, its metrics named `replay/…`; `replay/value` is the expected return over the drawn arms.
    """
    engine = cast(TrainableEngine, runner.engine)
    trainer = _ReplayTrainer(
        runner=runner,
        settings=settings,
        model=engine.model,
        train_dataset=list(examples),
        data_collator=lambda batch: {"contrasts": batch},
        callbacks=callbacks,
        args=TrainingArguments(
            **shared_arguments(settings, model_settings, seed, scratch),
            **REINFORCEMENT_SCHEDULE,
            num_train_epochs=settings.replay_epochs,
            per_device_train_batch_size=settings.replay_batch,
            remove_unused_columns=False,
        ),
    )
    train_or_resume(trainer, scratch)
    engine.reset()
    return [entry for entry in trainer.state.log_history if "replay/loss" in entry]


class _ReplayTrainer(Trainer):
    """Trainer whose loss is −J_route over a batch of contrasts."""

    def __init__(self, *, runner: RolloutRunner, settings: RlSection, **kwargs: Any) -> None:
        self._runner, self._settings = runner, settings
        self._value = 0.0
        super().__init__(**kwargs)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """−(1 / batch) Σ over contrasts and their arms of A_route · log π(talent); all prompts are one prefix tree."""
        batch: list[Contrast] = inputs["contrasts"]
        prompts = [self._runner.prompt(contrast.task) for contrast in batch for _ in contrast.talents]
        tags = [self._runner.set_routing(talent).token_ids for contrast in batch for talent in contrast.talents]
        spans, _ = tree_log_probabilities(
            model,
            [prompt + tag for prompt, tag in zip(prompts, tags, strict=True)],
            [range(len(prompt), len(prompt) + len(tag)) for prompt, tag in zip(prompts, tags, strict=True)],
        )
        arms = torch.stack([span.sum() for span in spans]).split([len(contrast.talents) for contrast in batch])
        objective = torch.zeros(())
        values = []
        for contrast, logprobs_A in zip(batch, arms, strict=True):
            returns_A, policy_A = torch.tensor(contrast.returns), logprobs_A.detach().cpu()
            tempered_A = torch.softmax(policy_A / self._settings.routing_temperature, 0)
            routed_1A = torch.ones(1, len(returns_A), dtype=torch.bool)
            advantages_A = routing_advantages(
                self._settings.estimator, returns_A[None, :, None], routed_1A, ~routed_1A, tempered_A[None]
            )[0]
            objective = objective + (advantages_A.to(logprobs_A.device) * logprobs_A).sum()
            values.append(float((torch.softmax(policy_A, 0) * returns_A).sum()))
        self._value = sum(values) / len(values)
        return -objective / self._settings.replay_batch

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """As Trainer, with the value of the last batch, under names that the online steps do not use."""
        logs = logs | ({"value": self._value} if "loss" in logs else {})
        super().log({f"replay/{name}": number for name, number in logs.items()}, *args, **kwargs)

    def _get_train_sampler(self, dataset: Any = None) -> EpochOrder:
        return EpochOrder(super()._get_train_sampler(dataset), self.args.seed)
