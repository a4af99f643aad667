"""Every profile of a backbone, with each hardware's, through SFT, RL and evaluation: at the profile's own settings of
model, learning rates, penalty and frozen layers, with a random model like the backbone and few, short rollouts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from backbones import BACKBONES, save_backbone
from learning_samples import ToyRunner, graded, toy_runner, toy_tasks, weights
from transformers import AutoConfig, GenerationConfig

from talentrl.config import Params, apply_profiles, load_params, with_overlay
from talentrl.evaluation.systems import evaluate_system
from talentrl.learning.arms import collect
from talentrl.learning.rl import train_rl
from talentrl.learning.sft import train_sft
from talentrl.policy.model import load_tokenizer
from talentrl.rollouts.episode import Episode, episodes_frame

REPOSITORY = Path(__file__).parents[2]
HARDWARE = ("lora-1x80gb", "full-8x80gb")
SMALL: dict[str, Any] = {
    "rollout": {"turns": 2, "routing_tokens": 24, "turn_tokens": 3, "batch": 4},
    "sft": {"epochs": 1, "batch": 4},
    "rl": {"steps": 1, "tasks": 1, "arms": 2, "replay_epochs": 1},
}


def profile_params(folder: Path, *names: str) -> Params:
    """The shipped params with profiles applied, as `talentrl profile` does it."""
    path = folder / "params.yaml"
    path.write_bytes((REPOSITORY / "params.yaml").read_bytes())
    apply_profiles([REPOSITORY / "profiles" / f"{name}.yaml" for name in names], path)
    return load_params(path)


def runner_of(params: Params, checkpoint: Path) -> ToyRunner:
    limits = params.rollout.model_dump(include={"turns", "routing_tokens", "turn_tokens", "batch"})
    return toy_runner(checkpoint, graded, model_settings=params.model, max_tokens=params.model.max_tokens, **limits)


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_profile_trains_and_evaluates(tmp_path: Path, backbone: str, hardware: str) -> None:
    params = with_overlay(profile_params(tmp_path, "paper", backbone, hardware), SMALL, "test")
    model, sft, rl = tmp_path / "model", tmp_path / "sft", tmp_path / "rl"
    save_backbone(backbone, model)

    demonstrations = collect(runner_of(params, model), toy_tasks(2), params.rl, 0).episodes
    train_sft(model, episodes_frame(demonstrations), params.sft, 7, tmp_path / "s", sft, None, params.model)
    history, episodes = train_rl(
        runner_of(params, sft), toy_tasks(2), params.rl, 7, tmp_path / "r", rl, None, params.model
    )
    evaluated = evaluate_system("rl", runner_of(params, rl), toy_tasks(2), 7)

    assert history[0]["sampling/sampling_logp_difference/mean"] < 0.02  # rounding of bfloat16
    assert episodes["error"].null_count() == episodes.height
    assert [episode.error for episode in evaluated] == [None, None]
    for episode in evaluated:
        assert_layout(backbone, load_tokenizer(rl), episode)
    assert_trained(params, model, sft, rl)
    for checkpoint in (sft, rl):
        assert AutoConfig.from_pretrained(checkpoint).architectures == AutoConfig.from_pretrained(model).architectures
        kept, given = (GenerationConfig.from_pretrained(folder).to_diff_dict() for folder in (checkpoint, model))
        assert kept.items() >= given.items()  # all end tokens, above all
        assert load_tokenizer(checkpoint).chat_template == load_tokenizer(model).chat_template


def assert_layout(backbone: str, tokenizer: Any, episode: Episode) -> None:
    """One system turn, which is ours; the backbone's delimiters; tags are ordinary text, told from special tokens."""
    text = tokenizer.decode(episode.token_ids)
    turns = sum(turn.role == "assistant" for turn in episode.turns)
    assert "<talent>" not in tokenizer.get_vocab()
    assert text.count("Choose a talent for the question") == 1 and "Be kind" not in text
    if backbone == "llama-3.1-8b":
        opening = "<|start_header_id|>assistant<|end_header_id|>\n\n"
        assert text.startswith("<|begin_of_text|>") and text.count("<|begin_of_text|>") == 1
        assert text.count("Day: 26 Jul 2024") == 1
    else:
        opening = "<|im_start|>assistant\n"
        assert text.startswith("<|im_start|>system\nChoose")
    if backbone == "qwen3-8b":
        opening += "<think>\n\n</think>\n\n"
    assert text.count(opening) >= turns


def assert_trained(params: Params, model: Path, sft: Path, rl: Path) -> None:
    """Each stage changed the weights that its settings train, and no others."""
    start, middle, end = weights(model), weights(sft), weights(rl)
    assert start.keys() == middle.keys() == end.keys()
    supervised = {name for name in start if not torch.equal(start[name], middle[name])}
    reinforced = {name for name in start if not torch.equal(middle[name], end[name])}
    assert supervised and reinforced
    adapted = {name for name in start if "proj" in name and name.endswith("weight")}  # linear layers
    assert reinforced <= adapted
    if params.model.lora_rank:
        assert supervised <= adapted
    else:
        assert {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight"} <= supervised


@pytest.mark.parametrize("hardware", HARDWARE)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_full_turns_fit_a_conversation_of_a_profile(tmp_path: Path, backbone: str, hardware: str) -> None:
    params = profile_params(tmp_path, "paper", backbone, hardware)
    room = params.rollout.routing_tokens + params.rollout.turns * params.rollout.turn_tokens
    assert room <= 0.7 * params.model.max_tokens
    assert params.model.source.split("/")[1].lower().startswith(backbone)
