"""The vLLM engine against a scripted server: what it sends, when it hands weights over, and what it says of faults."""

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from engine_samples import END, FIXED_WORDS, TOKENIZER
from safetensors.torch import load_file
from tiny_models import byte_tokenizer, tiny_model
from vllm_servers import ScriptedServer, completion, scripted_server

from talentrl.errors import InputError
from talentrl.policy.engine import Generation, Sampling
from talentrl.policy.vllm_engine import VllmEngine
from talentrl.policy.vllm_server import VllmServer

GREEDY = Sampling(4, ("w7",))


def save(folder: Path, architecture: str = "llama", tokenizer=TOKENIZER) -> Path:
    tiny_model(architecture).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model"))


@pytest.fixture
def server(folder):
    with scripted_server(folder) as script:
        yield script


def connect(script: ScriptedServer, folder: Path, timeout: float = 30.0) -> VllmServer:
    return VllmServer.open(script.url, timeout, folder, 256)


def engine(script: ScriptedServer, folder: Path, timeout: float = 30.0) -> VllmEngine:
    return VllmEngine(connect(script, folder, timeout), folder, TOKENIZER, 4)


def log_probabilities(model, ids):
    """As vLLM gives them for a prompt."""
    with torch.no_grad():
        rows = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    return [None, *({str(token): {"logprob": float(rows[i, token])}} for i, token in enumerate(ids[1:]))]


def test_a_row_is_a_request_with_its_own_ids_and_seed(server, folder):
    server.complete = lambda body: completion([*body["prompt"], END], "stop" if body["seed"] == 5 else "length")
    turns = engine(server, folder).generate([[1], [2, 3]], Sampling(9, ("w7", "w8"), 0.5), [5, 2**63 + 6])
    assert turns == [Generation([1, END], [-1.0] * 2, True), Generation([2, 3, END], [-1.0] * 3, False)]
    sent = sorted(server.asked("/v1/completions"), key=lambda body: body["prompt"])
    assert [(body["prompt"], body["seed"]) for body in sent] == [([1], 5), ([2, 3], 6)]
    for body in sent:
        assert (body["max_tokens"], body["temperature"], body["stop"]) == (9, 0.5, ["w7", "w8"])
        assert (body["stop_token_ids"], body["include_stop_str_in_output"]) == ([END], True)
        # What the model's folder might say of sampling must not count.
        assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)


def test_weights_are_handed_over_once_and_again_after_a_change(server, folder):
    loaded = []

    def load(path: Path):
        loaded.append((path, load_file(path / "model.safetensors")["lm_head.weight"][0, 0].item()))

    server.on_load = load
    ours = engine(server, folder)
    for _ in range(2):
        ours.generate([[1]], GREEDY, [0])
    assert [path for path, _ in loaded] == [folder]
    server.complete = lambda body: completion([1]) | {"prompt_logprobs": log_probabilities(ours.model, body["prompt"])}
    with torch.no_grad():
        ours.model.lm_head.weight[0, 0] = 0.625
    ours.reset()
    for _ in range(2):
        ours.generate([[1]], GREEDY, [0])
    assert len(loaded) == 2
    assert loaded[1][1] == 0.625
    assert not loaded[1][0].exists(), "the folder goes when the server has read it"
    paths = [path for path, _ in server.requests]
    assert paths.index("/collective_rpc") < paths.index("/reset_prefix_cache") < paths.index("/v1/completions")


def test_a_restarted_server_gets_the_weights_again(server, folder):
    ours = engine(server, folder)
    ours.generate([[1]], GREEDY, [0])
    server.version = "default"
    ours.generate([[1]], GREEDY, [0])
    assert len(server.asked("/collective_rpc")) == 2


def test_a_server_that_computes_something_else_is_found_out(server, folder, monkeypatch):
    monkeypatch.setattr("talentrl.policy.vllm_engine.FIXED_TEXT", FIXED_WORDS)
    ours = engine(server, folder)
    other = tiny_model("llama", seed=1)
    server.complete = lambda body: completion([1]) | {"prompt_logprobs": log_probabilities(other, body["prompt"])}
    assert ours.model is not None  # as training does
    with pytest.raises(InputError, match=r"other probabilities than the trained model, found a mean difference of"):
        ours.generate([[1]], GREEDY, [0])


def test_another_run_on_the_same_server_is_noticed(server, folder):
    ours = engine(server, folder)

    def complete(body):
        server.version = "theirs"
        return completion([1])

    server.complete = complete
    with pytest.raises(InputError, match="was given other weights during a rollout; expected one run at a time"):
        ours.generate([[1]], GREEDY, [0])


def test_a_row_that_is_refused_or_late_fails_alone(server, folder):
    def complete(body):
        if body["prompt"] == [2]:
            return 400, {"error": {"message": "too\nlong"}}
        if body["prompt"] == [3]:
            time.sleep(3)
        if body["prompt"] == [4]:
            return completion([], "abort")
        return completion([1])

    server.complete = complete
    turns = engine(server, folder, timeout=1.0).generate([[1], [2], [3], [4]], GREEDY, [0] * 4)
    assert [turn.failure for turn in turns] == [
        "",
        "vLLM refused a request (400): too long",
        "vLLM gave no answer within 1 seconds (vllm.timeout)",
        "vLLM ended a request early (abort)",
    ]
    assert turns[0].token_ids == [1]


def test_a_server_that_stops_fails_the_rows_that_it_owes_and_the_next_call(server, folder):
    ours = engine(server, folder)

    def complete(body):
        if body["prompt"] == [1]:
            return completion([1])
        for path in ("/health", "/weight_info"):
            server.answers[path] = (500, "gone")
        return 500, "EngineDeadError"

    server.complete = complete
    turns = ours.generate([[1], [2]], GREEDY, [0, 0])
    assert turns[0].token_ids == [1]
    expected = f"vllm.url: the server at {server.url} stopped during a rollout: vLLM refused a request (500)"
    assert turns[1].failure.startswith(expected)
    with pytest.raises(InputError, match=f"vllm.url: the server at {server.url}"):
        ours.generate([[1]], GREEDY, [0])


def test_scores_that_fail_end_the_run(server, folder):
    ours = engine(server, folder)
    server.complete = lambda body: (400, {"error": {"message": "too long"}})
    with pytest.raises(InputError, match="talents could not be scored: vLLM refused a request"):
        ours.score([[1]], [[2]])


def test_an_interrupt_ends_the_call(server, folder, interruptible):
    ours = engine(server, folder)
    ours.generate([[1]], GREEDY, [0])

    def complete(body):
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(5)
        return completion([1])

    server.complete = complete
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ours.generate([[1]], GREEDY, [0])
    assert time.monotonic() - began < 4
    server.complete = lambda body: completion([9])
    assert ours.generate([[1]], GREEDY, [0])[0].token_ids == [9]


@pytest.mark.parametrize(
    "setting, message",
    [
        ({"logprobs_mode": "raw_logprobs"}, "--logprobs-mode raw_logprobs, expected processed_logprobs"),
        ({"max_model_len": 128}, r"takes conversations of 128 tokens, expected model.max_tokens \(256\) or more"),
        ({"model": "org/name"}, "runs 'org/name', expected a model folder that is on this machine too"),
    ],
)
def test_a_server_with_other_settings_is_refused(server, folder, setting, message):
    server.model_config |= setting
    with pytest.raises(InputError, match=message):
        connect(server, folder)


def test_another_model_or_vocabulary_is_refused(server, folder, tmp_path):
    other = save(tmp_path / "qwen", "qwen2")
    with pytest.raises(InputError, match=rf"runs {folder} with .* expected the architecture of {other}"):
        connect(server, other)
    words = save(tmp_path / "words", tokenizer=byte_tokenizer("plain"))
    with pytest.raises(InputError, match=rf"runs {folder}, whose tokenizer has another vocabulary than {words}: `make"):
        connect(server, words)


@pytest.mark.parametrize(
    "answer, message",
    [
        ((404, {"detail": "Not Found"}), "expected vLLM with VLLM_SERVER_DEV_MODE=1, as by `make serve`"),
        ((200, "<html>"), "what answers there is not vLLM"),
        ((200, {"status": "ok"}), "is not vLLM"),
        ((401, {"error": "Unauthorized"}), "it expects a key; set VLLM_API_KEY"),
    ],
)
def test_what_is_no_vllm_server_is_refused(server, folder, answer, message):
    server.answers["/server_info"] = answer
    with pytest.raises(InputError, match=message):
        connect(server, folder)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "no address"])
def test_no_server_is_said_at_once(folder, url):
    with pytest.raises(InputError, match=rf"vllm.url: the server at {url} does not answer"):
        VllmServer.open(url, 30, folder, 256)


def test_the_key_is_sent_and_not_shown(server, folder, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "s3cret")
    ours = engine(server, folder)
    server.complete = lambda body: (403, {"error": {"message": "forbidden"}})
    turn = ours.generate([[1]], GREEDY, [0])[0]
    assert server.keys == {"Bearer s3cret"}
    assert "s3cret" not in json.dumps(turn.failure)
