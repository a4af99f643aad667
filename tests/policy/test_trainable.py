"""Which weights training changes: lower layers frozen, or LoRA adapters alone."""

from pathlib import Path

import pytest
import torch
from tiny_models import ARCHITECTURES, tiny_model, word_tokenizer
from transformers import AutoModelForCausalLM

from talentrl.config import ModelSection
from talentrl.errors import InputError
from talentrl.policy.engine import Sampling
from talentrl.policy.model import save_model
from talentrl.policy.trainable import save_weights, set_trainable
from talentrl.policy.transformers_engine import TransformersEngine

IDS = torch.tensor([[1, 2, 3, 4, 5, 6]])
LORA = ModelSection(lora_rank=4, lora_alpha=8)


def test_frozen_layers_get_no_gradient():
    model = tiny_model("llama")
    set_trainable(model, ModelSection(), 1, 0)
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert model.model.embed_tokens.weight.grad is None
    assert all(p.grad is None for p in model.model.layers[0].parameters())
    assert all(p.grad is not None for p in model.model.layers[1].parameters())


def test_freezing_all_layers_is_refused():
    model = tiny_model("llama")
    with pytest.raises(InputError, match="frozen_layers: found 2, expected fewer than the model's 2 layers"):
        set_trainable(model, ModelSection(), 2, 0)
    assert set_trainable(model, ModelSection(), 0, 0) is model
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("frozen, lowest", [(0, 0), (1, 1)])
def test_adapters_alone_are_trained_in_the_layers_that_are_not_frozen(frozen, lowest):
    model = set_trainable(tiny_model("llama"), LORA, frozen, 0)
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert names and all("lora_" in name for name in names)
    layers = {int(name.split("layers.")[1].split(".")[0]) for name in names}
    assert layers == set(range(lowest, 2))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_fresh_adapters_change_nothing_and_trained_ones_are_merged(architecture, tmp_path: Path):
    plain = tiny_model(architecture)(IDS).logits
    model = set_trainable(tiny_model(architecture), LORA, 0, 0)
    torch.testing.assert_close(model(IDS).logits, plain)
    model.train()
    model(IDS).logits.square().sum().backward()
    torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.01).step()
    model.eval()
    with torch.no_grad():
        trained = model(IDS).logits
    assert not torch.allclose(trained, plain, atol=1e-4)
    turns = TransformersEngine(model, word_tokenizer()).generate([[1, 2, 3]] * 2, Sampling(4, ()), [0, 1])
    save_weights(model, tmp_path / "now")  # as a vLLM server takes them, in the middle of training
    now = AutoModelForCausalLM.from_pretrained(tmp_path / "now").eval()
    assert {name for name, _ in now.named_parameters()} == {
        name for name, _ in tiny_model(architecture).named_parameters()
    }
    torch.testing.assert_close(now(IDS).logits, trained, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(model(IDS).logits, trained, atol=0, rtol=0)
    save_model(model, word_tokenizer(), tmp_path / "out")
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert not any("lora" in name for name, _ in saved.named_parameters())
    torch.testing.assert_close(saved(IDS).logits, trained, atol=1e-4, rtol=1e-4)
    again = TransformersEngine(saved, word_tokenizer()).generate([[1, 2, 3]] * 2, Sampling(4, ()), [0, 1])
    assert [turn.token_ids for turn in again] == [turn.token_ids for turn in turns]
