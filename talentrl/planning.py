"""What a run will take, worked out from `params.yaml` and the model's configuration before anything is started.

Parameters are counted on the model itself, built without weights. The rest is arithmetic that takes every conversation
for as long as it is allowed to be, and leaves out what the allocator wastes: an estimate. No speed is guessed: hours
follow from the two speeds that the caller assumes.
"""

import math
from dataclasses import dataclass
from typing import Any

from talentrl.config import ModelSection, Params

FLOAT, HALF = 4, 2
"""Bytes of a number in float32 and in bfloat16."""
ADAM = 2 * FLOAT
"""Bytes of Adam's two moments of a weight (Kingma and Ba 2015)."""
LOGIT_COPIES = 5
"""Logits, log-probabilities, probabilities, their product for the entropy, a gradient: float32, a vocabulary each."""


@dataclass(frozen=True)
class Size:
    """A model's numbers, in the words of its `config.json`."""

    parameters: int
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int


@dataclass(frozen=True)
class Speed:
    """What a device is assumed to achieve: operations a second, and bytes a second read from its memory."""

    operations: float
    bandwidth: float


@dataclass(frozen=True)
class Plan:
    """Bytes on each GPU by stage and part, tokens by stage, seconds by stage (if speeds are assumed), bytes on disk."""

    parameters: int
    memory: dict[str, dict[str, float]]
    rollouts: dict[str, int]
    tokens: dict[str, int]
    seconds: dict[str, float]
    disk: float


def model_size(config: Any) -> Size:
    """Sizes of the causal language model of a transformers configuration; its parameters are counted, not derived."""
    return Size(
        parameters=count_parameters(config, ModelSection(), 0)[0],
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        intermediate=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        heads=config.num_attention_heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
        head=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        vocabulary=config.vocab_size,
    )


def count_parameters(config: Any, settings: ModelSection, frozen_layers: int) -> tuple[int, int]:
    """All parameters, adapters included, and those that training changes. Raises InputError as `set_trainable` does."""
    import torch
    from transformers import AutoModelForCausalLM

    from talentrl.policy.trainable import set_trainable

    with torch.device("meta"):  # shapes without memory
        model = set_trainable(AutoModelForCausalLM.from_config(config), settings, frozen_layers, 0)
    return model.num_parameters(), sum(p.numel() for p in model.parameters() if p.requires_grad)


def cache_bytes(size: Size, model: ModelSection) -> int:
    """Bytes of keys and values a token, which the cache keeps in the precision that attention multiplies."""
    return 2 * size.layers * size.kv_heads * size.head * (HALF if model.precision == "bfloat16" else FLOAT)


def layer_bytes(size: Size, model: ModelSection) -> int:
    """Bytes that one layer keeps for its backward pass, a token.

    In float32 the residual stream and the two normalisations (input, square, normalised: 3 · hidden each); in the
    layers' precision the inputs and outputs of the linear maps: queries, keys, values and their rotations, the heads'
    output, and the gated network's four vectors. Attention keeps no scores: it computes them again (Dao et al. 2022).
    """
    multiplied = HALF if model.precision == "bfloat16" else FLOAT
    attention = 4 * size.heads * size.head + 5 * size.kv_heads * size.head
    return 6 * FLOAT * size.hidden + multiplied * (2 * size.hidden + attention + 4 * size.intermediate)


def activation_bytes(size: Size, model: ModelSection, tokens: int, trained_layers: int) -> int:
    """Bytes kept for the backward pass of `tokens` tokens forwarded together: of `trained_layers` layers, or with
    gradient checkpointing (Chen et al. 2016) their inputs and one layer; and the mask of a prefix tree, tokens²."""
    if model.gradient_checkpointing:
        kept = trained_layers * FLOAT * size.hidden + layer_bytes(size, model)
    else:
        kept = trained_layers * layer_bytes(size, model)
    return tokens * kept + FLOAT * tokens**2


def training_memory(
    params: Params, size: Size, model: ModelSection, counts: tuple[int, int], layers: int, rows: int, gpus: int = 1
) -> dict[str, float]:
    """Bytes by part while the upper `layers` are trained on `rows` conversations.

    `counts` are parameters and trained ones, and `gpus` share them, their gradients and moments (ZeRO, Rajbhandari et
    al. 2020). With bfloat16, weights are also held in it: all, or with checkpointing the trained.
    """
    total, trained = counts
    copied = 0 if model.precision == "float32" else trained if model.gradient_checkpointing else total
    sampled = rows * sampled_tokens(params)
    return {
        "weights": FLOAT * total / gpus,
        "gradients": FLOAT * trained / gpus,
        "optimizer": ADAM * trained / gpus,
        "bfloat16 copies": HALF * copied,
        "activations": activation_bytes(size, model, rows * params.model.max_tokens, layers),
        "logits": LOGIT_COPIES * FLOAT * sampled * size.vocabulary,
    }


def sampled_tokens(params: Params) -> int:
    """Tokens that the policy writes in one rollout, at most."""
    rollout = params.rollout
    return min(rollout.routing_tokens + rollout.turns * rollout.turn_tokens, params.model.max_tokens)


def make_plan(params: Params, config: Any, talents: int, gpus: int = 1, speed: Speed | None = None) -> Plan:
    """Plan a run of `params` with the model of a transformers configuration and a bank of `talents` talents.

    Args:
        params: the settings.
        config: the model's configuration.
        talents: of the bank: `oracle` plays each, and no step has more distinct arms.
        gpus: processes that share the supervised stage; all other stages run in one.
        speed: what to compute hours from.

    Raises:
        InputError: more layers are frozen than the model has.
    """
    from talentrl.learning.arms import arms_per_task

    size, rl = model_size(config), params.rl
    conversation, written = params.model.max_tokens, sampled_tokens(params)
    arms = 1 + min(params.demos.forced_arms, talents - 1)
    group = arms_per_task(rl, talents) * rl.rollouts
    adapters = rl.model_settings(params.model)
    supervised_counts = count_parameters(config, params.model, params.sft.frozen_layers)
    counts = count_parameters(config, adapters, rl.frozen_layers)
    reinforcement = training_memory(params, size, adapters, counts, size.layers - rl.frozen_layers, group)
    if rl.kl and not adapters.lora_rank:
        reinforcement["reference model"] = FLOAT * size.parameters
    conversations = params.demos.tasks * arms
    evaluated = sum(talents if system == "oracle" else 1 for system in params.evaluate.systems) * params.evaluate.tasks
    rollouts = {"rl": rl.steps * rl.tasks * group, "evaluate": evaluated}
    tokens = {
        "sft": params.sft.epochs * conversations * conversation,
        "rl": (rollouts["rl"] + rl.replay_epochs * rl.steps * rl.tasks) * conversation,
        "evaluate": evaluated * conversation,
    }
    memory = {
        "sft": training_memory(
            params,
            size,
            params.model,
            supervised_counts,
            size.layers - params.sft.frozen_layers,
            math.gcd(params.sft.batch, arms),
            gpus,
        ),
        "rl": reinforcement,
        "rollouts": {
            "weights": reinforcement["weights"],
            "optimizer": reinforcement["optimizer"],
            "bfloat16 copies": HALF * size.parameters if params.model.precision == "bfloat16" else 0,
            # What is kept between turns, and the batch that is assembled from it.
            "KV cache": 2 * params.rollout.batch * conversation * cache_bytes(size, params.model),
        },
    }
    seconds = _seconds(params, size, adapters, rollouts, tokens, written, speed) if speed else {}
    # For resuming: two checkpoints of the stage that is under way, each with Adam's moments.
    stages = ((params.model, supervised_counts), (adapters, counts))
    resumed = max(
        2 * (FLOAT * (trained if model.lora_rank else total) + ADAM * trained) for model, (total, trained) in stages
    )
    return Plan(size.parameters, memory, rollouts, tokens, seconds, resumed + _disk(params, size, tokens))


def _seconds(
    params: Params,
    size: Size,
    adapters: ModelSection,
    rollouts: dict[str, int],
    tokens: dict[str, int],
    written: int,
    speed: Speed,
) -> dict[str, float]:
    """Seconds by stage, for all training seeds.

    A token takes 2 operations a parameter forward and 4 backward (Kaplan et al. 2020), 2 with adapters, whose weights'
    own gradients are few; checkpointing adds a forward pass. Decoding reads all weights (in float32), and the keys and
    values of the batch, for each token of the batch (Pope et al. 2022).
    """
    forward = 2 * size.parameters / speed.operations

    def training(model: ModelSection) -> float:
        return forward * (1 + (1 if model.lora_rank else 2) + (1 if model.gradient_checkpointing else 0))

    batch = params.rollout.batch
    read = FLOAT * size.parameters + batch * params.model.max_tokens * cache_bytes(size, params.model)
    decode = read / speed.bandwidth / batch
    rollout = written * decode + (params.model.max_tokens - written) * forward
    seeds = len(params.seeds)
    return {
        "sft": seeds * tokens["sft"] * training(params.model),
        "rl": seeds * (tokens["rl"] * training(adapters) + rollouts["rl"] * rollout),
        "evaluate": seeds * rollouts["evaluate"] * rollout,
        "one rollout": rollout,
    }


def _disk(params: Params, size: Size, tokens: dict[str, int]) -> float:
    """Bytes of outputs: the model and a checkpoint a seed of both stages, each twice (DVC's cache), and 10 a token of
    episodes (id, log-probability, two masks)."""
    seeds = len(params.seeds)
    checkpoints = 2 * FLOAT * size.parameters * (1 + 2 * seeds)
    return checkpoints + 10 * seeds * (tokens["rl"] + tokens["evaluate"])
