"""Talent-aware supervised fine-tuning on TRL's SFTTrainer.

The conversations come as token ids with masks, laid out by the code that makes rollouts, so training and rollouts
agree token by token. The loss is on the tokens of assistant turns only: executions, and routing turns that are
targets; never on questions, talent contexts or retrieved passages.
"""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import torch
from trl import SFTConfig, SFTTrainer

from talentrl.config import ModelSection, SftSection
from talentrl.errors import InputError
from talentrl.learning.arguments import shared_arguments
from talentrl.learning.resuming import train_or_resume
from talentrl.policy.model import load_model, load_tokenizer, save_model
from talentrl.policy.prefix_tree import tree_log_probabilities
from talentrl.policy.trainable import set_trainable
from talentrl.processes import is_first_process, process_count

_IGNORED = -100


def training_rows(episodes: pl.DataFrame, seed: int) -> list[dict[str, list[int]]]:
    """`input_ids` and `labels` of each conversation; masked tokens have label −100.

    Tasks are shuffled by `seed`; the conversations of one stay together, since they share a prompt.
    """
    tasks = episodes["task_id"].unique(maintain_order=True)
    order = pl.DataFrame({"task_id": tasks.shuffle(seed)})
    episodes = order.join(episodes, on="task_id", maintain_order="left_right")
    columns = episodes.select("token_ids", "routing_mask", "action_mask")
    return [
        {
            "input_ids": ids,
            "labels": [
                token if routing or action else _IGNORED
                for token, routing, action in zip(ids, routings, actions, strict=True)
            ],
        }
        for ids, routings, actions in columns.iter_rows()
    ]


def train_sft(
    base: Path,
    episodes: pl.DataFrame,
    settings: SftSection,
    seed: int,
    scratch: Path,
    output: Path,
    callbacks: list[Any] | None = None,
    model_settings: ModelSection = ModelSection(),
) -> list[dict[str, float]]:
    """Fine-tune the model in `base` on the conversations of `episodes`; write it to `output`.

    Resumes from the newest checkpoint in `scratch` with optimiser and random state. The caller removes `scratch`.
    Several processes share the conversations of each step, so their number changes the weights by rounding only.

    Returns:
        The trainer's log history, one dict a step.

    Raises:
        InputError: `base` is not a model folder, or the processes cannot share a step equally.
    """
    from datasets import Dataset

    if settings.batch % process_count():
        raise InputError(f"sft.batch: found {settings.batch}, expected a multiple of the {process_count()} processes")
    share = settings.batch // process_count()
    model = load_model(base, settings.precision or model_settings.precision)
    model = set_trainable(model, model_settings, settings.frozen_layers, seed)
    tokenizer = load_tokenizer(base)
    rows = training_rows(episodes, seed)
    (together, _), *_ = Counter(Counter(episodes["task_id"]).values()).most_common()
    micro_batch = math.gcd(share, together)  # one task's conversations: a tree whose trunk is their prompt
    trainer = _Trainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows),
        callbacks=callbacks,
        args=SFTConfig(
            **shared_arguments(settings, model_settings, seed, scratch),
            num_train_epochs=settings.epochs,
            per_device_train_batch_size=micro_batch,
            gradient_accumulation_steps=share // micro_batch,
            lr_scheduler_type="linear",
            max_length=max(len(row["input_ids"]) for row in rows),
            train_sampling_strategy="sequential",  # shuffled above
        ),
    )
    train_or_resume(trainer, scratch)
    if is_first_process():
        save_model(model, tokenizer, output)
    return [entry for entry in trainer.state.log_history if "loss" in entry]


class _Trainer(SFTTrainer):
    """SFTTrainer that scores the labelled tokens only."""

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Mean negative log-likelihood of the labelled tokens, forwarded as one prefix tree like the rollouts of RL.

        Off the GPU, TRL multiplies every token with the output embeddings, though few are labelled: half of a step.
        """
        lengths = inputs["attention_mask"].sum(1).tolist()
        sequences = [ids[:length] for ids, length in zip(inputs["input_ids"].tolist(), lengths, strict=True)]
        wanted = [(row != _IGNORED).nonzero().squeeze(1).tolist() for row in inputs["labels"]]
        logprobs, entropies = (torch.cat(values) for values in tree_log_probabilities(model, sequences, wanted))
        self._metrics["train"]["entropy"].append(entropies.mean().item())
        if num_items_in_batch is None:
            return -logprobs.mean()
        # Gradients are averaged over processes, and the count is that of all.
        return -logprobs.sum() * self.accelerator.num_processes / num_items_in_batch
