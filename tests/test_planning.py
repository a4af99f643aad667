"""The arithmetic of `talentrl plan`, against what small models really take."""

from pathlib import Path

import pytest
import torch
from backbones import BACKBONES, PUBLISHED, save_backbone
from torch.autograd.graph import saved_tensors_hooks
from transformers import AutoModelForCausalLM, Cache, LlamaConfig
from typer.testing import CliRunner

from talentrl.cli import app
from talentrl.config import ModelSection, Params, parse_params
from talentrl.errors import InputError
from talentrl.planning import (
    Speed,
    activation_bytes,
    cache_bytes,
    count_parameters,
    layer_bytes,
    make_plan,
    model_size,
    sampled_tokens,
)
from talentrl.policy.growing_cache import GrowingLayer
from talentrl.policy.model import load_config, load_model
from talentrl.policy.trainable import set_trainable

GB = 1e9


@pytest.fixture(scope="module", params=BACKBONES)
def folder(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("planning") / request.param
    save_backbone(request.param, path)
    return path


@pytest.mark.parametrize(("rank", "frozen"), [(0, 0), (0, 2), (4, 0), (4, 1)])
def test_parameters_are_those_of_the_model(folder, rank, frozen):
    settings = ModelSection(lora_rank=rank)
    model = set_trainable(load_model(folder), settings, frozen, 0)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert count_parameters(load_config(folder), settings, frozen) == (model.num_parameters(), trained)


@pytest.mark.parametrize(("name", "billions"), [("qwen2.5-7b", 7.616), ("qwen3-8b", 8.191), ("llama-3.1-8b", 8.030)])
def test_the_backbones_have_their_published_sizes(name, billions):
    assert model_size(PUBLISHED[name]).parameters / GB == pytest.approx(billions, abs=0.001)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_cache_has_the_bytes_of_a_real_one(folder, precision):
    tokens = 11
    cache = Cache(layer_class_to_replicate=GrowingLayer)  # that of rollouts
    load_model(folder, precision)(torch.ones(1, tokens, dtype=torch.long), cache=cache, use_cache=True)
    held = sum(tensor.nbytes for layer in cache.layers for tensor in (layer.keys, layer.values))
    assert tokens * cache_bytes(model_size(load_config(folder)), ModelSection(precision=precision)) == held


def test_activations_are_near_what_a_backward_pass_keeps():
    """One layer, as the difference between models of three and two; attention's own buffers are left out."""
    tokens, kept = 64, []
    sizes = {"hidden_size": 64, "intermediate_size": 192, "num_attention_heads": 4, "num_key_value_heads": 2}
    for layers in (2, 3):
        config = LlamaConfig(num_hidden_layers=layers, vocab_size=50, **sizes)
        model, storages = AutoModelForCausalLM.from_config(config), {}
        weights = {p.untyped_storage().data_ptr() for p in model.parameters()}

        def keep(tensor, storages=storages, weights=weights):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in weights:
                storages[storage.data_ptr()] = storage.nbytes()
            return tensor

        with saved_tensors_hooks(keep, lambda tensor: tensor):
            output = model(torch.ones(1, tokens, dtype=torch.long), use_cache=False)
        kept.append(sum(storages.values()))
        del output
    estimate = tokens * layer_bytes(model_size(config), ModelSection())
    assert kept[1] - kept[0] == pytest.approx(estimate, rel=0.25)


def test_checkpointing_keeps_the_inputs_of_layers_and_one_layer():
    size = model_size(PUBLISHED["llama-3.1-8b"])
    again = activation_bytes(size, ModelSection(gradient_checkpointing=True), 10, 32)
    assert again == 10 * (32 * 4 * 4096 + layer_bytes(size, ModelSection())) + 4 * 100
    assert activation_bytes(size, ModelSection(), 10, 32) == 10 * 32 * layer_bytes(size, ModelSection()) + 4 * 100


def small(**sections) -> Params:
    return parse_params({"model": {"max_tokens": 100}} | sections, "test")


def test_a_plan_worked_by_hand():
    """Two layers of hidden size 8; 3 tasks with 2 conversations; 2 steps of 2 tasks with 2 arms of 3 rollouts."""
    config = LlamaConfig(
        hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, vocab_size=10,
        tie_word_embeddings=True,
    )  # fmt: skip
    params = small(
        seeds=[1, 2],
        rollout={"turns": 2, "routing_tokens": 4, "turn_tokens": 8, "batch": 5},
        demos={"tasks": 3, "forced_arms": 1},
        sft={"epochs": 2, "batch": 6},
        rl={"steps": 2, "tasks": 2, "arms": 2, "rollouts": 3, "replay_epochs": 1, "kl": 0.1, "temperature": 1.0},
        evaluate={"tasks": 4, "systems": ["sft", "oracle"]},
    )
    weights = 10 * 8 + 2 * (4 * 64 + 3 * 8 * 16 + 2 * 8) + 8
    plan = make_plan(params, config, talents=3, speed=Speed(operations=2 * weights, bandwidth=1e3))
    assert (plan.parameters, sampled_tokens(params)) == (weights, 20)
    assert plan.rollouts == {"rl": 24, "evaluate": 16}
    assert plan.tokens == {"sft": 1200, "rl": 2800, "evaluate": 1600}
    assert plan.memory["rl"] | {"activations": 0} == {
        "weights": 4 * weights,
        "gradients": 4 * weights,
        "optimizer": 8 * weights,
        "bfloat16 copies": 0,
        "activations": 0,
        "logits": 5 * 4 * 6 * 20 * 10,
        "reference model": 4 * weights,
    }
    cache = 2 * 2 * 2 * 4 * 4
    assert plan.memory["rollouts"]["KV cache"] == 2 * 5 * 100 * cache
    decode = (4 * weights + 5 * 100 * cache) / 1e3 / 5
    rollout = 20 * decode + 80 * 1.0  # the other tokens are read, a second each
    assert plan.seconds["one rollout"] == pytest.approx(rollout)
    assert plan.seconds["sft"] == pytest.approx(2 * 1200 * 3)
    assert plan.seconds["rl"] == pytest.approx(2 * (2800 * 3 + 24 * rollout))
    assert plan.disk == 8 * weights * 5 + 2 * 12 * weights + 10 * 2 * 4400
    shared = make_plan(params, config, 3, gpus=4).memory
    assert shared["sft"]["optimizer"] == plan.memory["sft"]["optimizer"] / 4
    assert shared["rl"] == plan.memory["rl"] and make_plan(params, config, 3).seconds == {}


@pytest.mark.parametrize(("hardware", "gpus"), [("lora-1x80gb", 1), ("full-8x80gb", 8)])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_profile_is_estimated_to_fit_its_gpus(tmp_path, backbone, hardware, gpus):
    root = Path(__file__).parents[1]
    path = tmp_path / "params.yaml"
    path.write_bytes((root / "params.yaml").read_bytes())
    from talentrl.config import apply_profiles, load_params

    apply_profiles([root / "profiles" / f"{name}.yaml" for name in ("paper", backbone, hardware)], path)
    plan = make_plan(load_params(path), PUBLISHED[backbone], 8, gpus)
    assert all(sum(stage.values()) < 80 * GB for stage in plan.memory.values())


def test_the_command_says_what_is_assumed(folder, tmp_path, monkeypatch):
    bank = Path(__file__).parents[1] / "banks" / "search_qa"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("params.yaml").write_text(f"model: {{source: {folder}}}\nbank: {{path: {bank}}}\n")
    plain = CliRunner().invoke(app, ["plan"])
    assert plain.exit_code == 0, plain.output
    assert "KV cache" in plain.stdout and "Disk:" in plain.stdout and "None is measured here" in plain.stdout
    assert "rollouts an hour" not in plain.stdout
    timed = CliRunner().invoke(app, ["plan", "--tflops", "0.1", "--bandwidth", "10"])
    assert "Assumed, not measured: 0.1 TFLOP/s and 10 GB/s. At these" in timed.stdout
    assert CliRunner().invoke(app, ["plan", "--tflops", "1"]).exit_code == 2


def test_a_model_that_cannot_be_read_is_refused_in_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for source in (str(tmp_path), "package:no-such-package"):
        with pytest.raises(InputError) as caught:
            load_config(source)
        assert "\n" not in str(caught.value)
