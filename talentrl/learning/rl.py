"""The reinforcement stage on TRL's GRPOTrainer.

How it differs from GRPO:
1. a group is a task's arms × rollouts: distinct talents drawn from the policy, plus the configured interventions;
2. routing tokens get the contrast between arms, execution tokens the advantage inside their own arm: the
   trainer's per-rollout advantages are replaced by a (rollouts, tokens) tensor;
3. the routing loss is a mean over routing spans with its own weight, each shared span counted once;
4. the rollouts of a task are forwarded as one prefix tree, and tokens whose advantage is zero not at all.
"""

import math
import time
from pathlib import Path
from typing import Any, cast

import polars as pl
import torch
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import split_tensor_dict

from talentrl.benchmarks.taskset import Task
from talentrl.config import ModelSection, RlSection
from talentrl.errors import InputError
from talentrl.learning.arguments import REINFORCEMENT_SCHEDULE, shared_arguments
from talentrl.learning.arms import (
    arms_per_task,
    collect,
    step_metrics,
    token_advantages,
    token_temperatures,
    trained_masks,
)
from talentrl.learning.callbacks import CollapseMonitor
from talentrl.learning.replay import contrasts, replay
from talentrl.learning.resuming import EpochOrder, train_or_resume
from talentrl.policy.engine import TrainableEngine
from talentrl.policy.model import save_model
from talentrl.policy.prefix_tree import tree_log_probabilities
from talentrl.policy.trainable import set_trainable
from talentrl.processes import process_count
from talentrl.rollouts.episode import episodes_frame, read_episodes, write_episodes
from talentrl.rollouts.interventions import derive_seed
from talentrl.rollouts.runner import RolloutRunner
from talentrl.timing import Stopwatch


def train_rl(
    runner: RolloutRunner,
    tasks: list[Task],
    settings: RlSection,
    seed: int,
    scratch: Path,
    output: Path,
    callbacks: list[Any] | None = None,
    model_settings: ModelSection = ModelSection(),
) -> tuple[list[dict[str, float]], pl.DataFrame]:
    """Train the model in `runner`'s engine on `tasks`; write it to `output`.

    Resumes from the newest checkpoint in `scratch` with optimiser and random state; rollouts of a step depend on
    the seed, the step and the weights only, so a resumed run repeats what an uninterrupted one does. The caller
    removes `scratch`.

    Returns:
        The trainer's log history, one dict a step, and the episodes of all steps with a `step` column.

    Raises:
        InputError: there are fewer tasks than a step takes, or the settings leave nothing to compare.
        TrainingStopped: the run collapsed; see `CollapseMonitor`.
    """
    from datasets import Dataset

    group = _checked_group(settings, tasks, len(runner.bank.talents))
    engine = cast(TrainableEngine, runner.engine)
    model_settings = settings.model_settings(model_settings)
    engine.model = set_trainable(engine.model, model_settings, settings.frozen_layers, seed)
    trainer = TalentGRPOTrainer(
        model=engine.model,
        processing_class=engine.tokenizer,
        train_dataset=Dataset.from_dict({"prompt": [task.task_id for task in tasks]}),
        runner=runner,
        tasks={task.task_id: task for task in tasks},
        settings=settings,
        episodes_folder=scratch / "episodes",
        callbacks=[*(callbacks or []), CollapseMonitor(settings.tasks)],
        args=grpo_arguments(settings, model_settings, group, runner.limits.max_tokens, seed, scratch),
    )
    train_or_resume(trainer, scratch)
    steps = [
        read_episodes(path).with_columns(step=pl.lit(step, pl.Int32))
        for step, path in enumerate(sorted((scratch / "episodes").glob("step-*.parquet")))
    ]
    episodes = pl.concat(steps)
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    examples = contrasts(episodes, trainer.tasks, settings.reward) if settings.replay_epochs else []
    if examples:
        replayed = replay(runner, examples, settings, seed, scratch / "replay", callbacks, model_settings)
        history += [{**entry, "step": len(history) + entry["step"]} for entry in replayed]
    save_model(engine.model, engine.tokenizer, output)
    return history, episodes


def grpo_arguments(
    settings: RlSection, model: ModelSection, group: int, max_tokens: int, seed: int, scratch: Path
) -> GRPOConfig:
    """TRL's configuration: a micro-batch is one task's `group` of rollouts, a step is `settings.tasks` of them."""
    return GRPOConfig(
        **shared_arguments(settings, model, seed, scratch)
        | {"save_total_limit": None},  # CollapseMonitor removes old ones
        **REINFORCEMENT_SCHEDULE,
        max_steps=settings.steps,
        per_device_train_batch_size=group,
        gradient_accumulation_steps=settings.tasks,
        num_generations=group,
        max_completion_length=max_tokens,
        loss_type=settings.loss_type,
        scale_rewards="none",  # advantages are ours
        beta=settings.kl,
        epsilon=settings.epsilon,
    )


def _checked_group(settings: RlSection, tasks: list[Task], talents: int) -> int:
    """Rollouts of each task. Raises InputError for settings that would train nothing without saying so."""
    if process_count() > 1:
        raise InputError(f"reinforcement runs in one process, found {process_count()}; start it with `python`")
    if len(tasks) < settings.tasks:
        raise InputError(f"rl.tasks: found {settings.tasks} a step, but there are {len(tasks)} tasks to train on")
    if settings.reward == "f1" and not tasks[0].answers:
        raise InputError(f"rl.reward: found f1, but {tasks[0].benchmark} has no answers; expected `return`")
    if problem := settings.problem():
        raise InputError(problem)
    group = arms_per_task(settings, talents) * settings.rollouts
    if group < 2:  # the bank has one talent
        raise InputError(f"rl.rollouts: found {group} a task of a bank with {talents} talents, expected at least two")
    return group


class TalentGRPOTrainer(GRPOTrainer):
    """GRPOTrainer with arms for groups and an advantage for every token (single process)."""

    def __init__(
        self,
        *,
        runner: RolloutRunner,
        tasks: dict[str, Task],
        settings: RlSection,
        episodes_folder: Path,
        **kwargs: Any,
    ) -> None:
        """Train the model inside `runner`'s engine on `tasks` (by id); write each step's episodes to a folder."""
        for name in ("tools", "environment_factory"):
            if kwargs.get(name):
                raise ValueError(f"`{name}` cannot be combined with TalentRL's rollouts: TRL would ignore their masks")
        self.runner, self.tasks = runner, tasks
        self.settings, self.episodes_folder = settings, episodes_folder
        self._stopwatch = Stopwatch()
        self._scored: torch.Tensor | None = None
        self._temperatures: torch.Tensor | None = None
        self._sampled: torch.Tensor | None = None
        super().__init__(reward_funcs=[episode_return], rollout_func=_rollout, **kwargs)

    def rollout(self, task_ids: list[str]) -> dict[str, list[Any]]:
        """Make one generation batch; `task_ids` holds each task's id once a rollout."""
        unique = [self.tasks[task_id] for task_id in task_ids[:: self.num_generations]]
        step = self.state.global_step
        engine = cast(TrainableEngine, self.runner.engine)
        began, synced = time.perf_counter(), engine.sync_seconds
        self.runner.stopwatch.take()  # of what came before training
        engine.reset()  # the weights have changed since the last step
        arms = collect(self.runner, unique, self.settings, derive_seed(self.args.seed, "step", step))
        engine.reset()
        write_episodes(self.episodes_folder / f"step-{step:05d}.parquet", episodes_frame(arms.episodes))
        for name, value in step_metrics(arms).items():
            self._metrics["train"][name].append(value)
        phases = self.runner.stopwatch.take() | {"rollouts": time.perf_counter() - began}
        phases["sync"] = engine.sync_seconds - synced
        phases["generation"] -= phases["sync"]
        for phase, seconds in phases.items():
            self._metrics["train"][f"seconds/{phase}"].append(seconds)
        return {
            "prompt_ids": [episode.token_ids[: episode.prompt_tokens] for episode in arms.episodes],
            "completion_ids": [episode.token_ids[episode.prompt_tokens :] for episode in arms.episodes],
            "logprobs": [episode.logprobs[episode.prompt_tokens :] for episode in arms.episodes],
            "env_mask": trained_masks(arms),
            "episode_return": arms.rewards,
            "token_advantages": token_advantages(arms, self.settings, self.runner.limits.max_tokens),
            "token_temperatures": [token_temperatures(e, self.settings.temperature) for e in arms.episodes],
        }

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """As TRL, and count the seconds of the forward pass and of the rest, most of which is the backward pass.

        A GPU works on while the forward pass has returned, so there the backward pass seems longer than it is.
        """
        began = time.perf_counter()
        loss = super().training_step(model, inputs, num_items_in_batch)
        spent = self._stopwatch.take()
        rest = time.perf_counter() - began - sum(spent.values())
        for phase, seconds in {"forward": spent["forward"], "backward": rest}.items():
            # TRL logs the mean over a step's micro-batches, so the list holds one number: the sum so far.
            total = self._metrics["train"][f"seconds/{phase}"]
            total[:] = [sum(total) + seconds]
        return loss

    def _get_train_sampler(self, dataset: Any = None) -> EpochOrder:
        return EpochOrder(super()._get_train_sampler(dataset), self.args.seed)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        for name, padding in (("advantages", 0.0), ("temperatures", 1.0)):
            padded = torch.full(output["completion_ids"].shape, padding)
            for row, example in enumerate(inputs):
                values = example[f"token_{name}"]
                padded[row, : len(values)] = values
            output[name] = padded.to(output["completion_ids"].device)
        group = len(inputs) // len({example["prompt"] for example in inputs})
        output["task_row"] = torch.arange(len(inputs)) // group
        return output

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        """As TRL, then undo its shuffle over the generation batch: a micro-batch holds whole tasks, whose rollouts
        share prefixes."""
        before = self._buffered_inputs
        with self._stopwatch.timed("preparation"):
            inputs = super()._prepare_inputs(generation_batch)
        if self._buffered_inputs is before or self._buffered_inputs is None:
            return inputs
        buffered = self._buffered_inputs
        order = torch.cat([batch["task_row"] for batch in buffered]).argsort(stable=True)
        merged = {
            key: torch.cat([batch[key] for batch in buffered])[order] if value is not None and value.dim() else value
            for key, value in buffered[0].items()
        }
        self._buffered_inputs = split_tensor_dict(merged, len(buffered))
        return self._buffered_inputs[self._step % len(buffered)]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """As TRL; without a KL term, tokens whose advantage is zero are not scored, since nothing flows to them."""
        trained = (inputs["tool_mask"] * inputs["completion_mask"]).bool()  # TRL pads tool_mask with 1
        scored = self._scored = trained if self.beta else trained & (inputs["advantages"] != 0)
        self._temperatures, self._sampled = inputs["temperatures"], inputs["sampling_per_token_logps"]
        try:
            with self._stopwatch.timed("forward"):
                loss = super()._compute_loss(model, inputs)
        finally:
            self._scored = self._temperatures = self._sampled = None
        # TRL's mean entropy counts the tokens that were not scored as zeros.
        entropy = self._metrics["train"]["entropy"]
        entropy[-1] = entropy[-1] * int(trained.sum()) / int(scored.sum()) if scored.any() else math.nan
        return loss

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Log-probabilities and entropies (B, `logits_to_keep`) through prefix trees; 0 where not scored."""
        scored = self._scored if self._scored is not None else attention_mask[:, -logits_to_keep:].bool()
        prompt_width = input_ids.shape[1] - logits_to_keep
        starts = (attention_mask[:, :prompt_width] == 0).sum(1).tolist()
        ends = (prompt_width + attention_mask[:, prompt_width:].sum(1)).tolist()
        sequences = [ids[a:b] for ids, a, b in zip(input_ids.tolist(), starts, ends, strict=True)]
        columns = [row.nonzero().squeeze(1) for row in scored]
        wanted = [(column + prompt_width - start).tolist() for column, start in zip(columns, starts, strict=True)]
        divisors = None
        if self._temperatures is not None:
            divisors = [row[column].tolist() for row, column in zip(self._temperatures, columns, strict=True)]
        with model.get_input_embeddings().register_forward_hook(self._count_forwarded):
            values, entropies = tree_log_probabilities(model, sequences, wanted, divisors)
        rows = torch.cat([torch.full_like(column, i) for i, column in enumerate(columns)])
        place = (rows, torch.cat(columns))
        if self._sampled is not None:
            self._log_difference(torch.cat(values).detach(), self._sampled[place])
        # A micro-batch in which nothing is scored still needs a loss to call backward on.
        anchor = next(p for p in model.parameters() if p.requires_grad).sum() * 0
        empty = anchor.expand(scored.shape)
        return (
            empty.index_put(place, torch.cat(values)),
            empty.detach().index_put(place, torch.cat(entropies).detach()),
            None,
        )

    def _log_difference(self, trainer_N: torch.Tensor, sampler_N: torch.Tensor) -> None:
        """Record how trainer and sampler differ about sampled tokens (log-probabilities), under TRL's names."""
        if not len(trainer_N):
            return
        difference_N = trainer_N - sampler_N
        metrics = self._metrics["train"]
        metrics["sampling/sampling_logp_difference/mean"].append(float(difference_N.abs().mean()))
        metrics["sampling/importance_sampling_ratio/mean"].append(float(difference_N.exp().mean()))
        # TRL logs the mean over a step's micro-batches, so the list holds one number: the largest so far.
        largest = metrics["sampling/importance_sampling_ratio/max"]
        largest[:] = [max([*largest, float(difference_N.exp().max())])]

    def _count_forwarded(self, module: torch.nn.Module, ids: tuple[torch.Tensor], output: torch.Tensor) -> None:
        count = self._metrics["train"]["tokens/forwarded"]
        count[:] = [sum(count) + ids[0].numel()]


def episode_return(completions: list[Any], **columns: Any) -> list[float | None]:
    """TRL reward function: what the environment gave."""
    return columns["episode_return"]


def _rollout(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
    assert isinstance(trainer, TalentGRPOTrainer)
    return trainer.rollout(prompts)
