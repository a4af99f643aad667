"""What a real vLLM server does for the engine beyond the contract (`test_engine_contract.py`)."""

import os
import random
import signal
import subprocess
import threading
import time

import pytest
import torch
from engine_samples import FIXED_WORDS, STOP, TOKENIZER, assert_same, decode_naively, ragged_prompts, some_tokens
from tiny_models import byte_tokenizer, tiny_model
from vllm_servers import REPOSITORY

from talentrl.config import ModelSection
from talentrl.errors import InputError
from talentrl.policy.engine import Sampling
from talentrl.policy.trainable import set_trainable
from talentrl.policy.vllm_engine import VllmEngine
from talentrl.policy.vllm_server import VllmServer

pytestmark = pytest.mark.vllm
TOLERANCE = 1e-3


@pytest.fixture(autouse=True)
def fixed_text(monkeypatch):
    monkeypatch.setattr("talentrl.policy.vllm_engine.FIXED_TEXT", FIXED_WORDS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("served")
    tiny_model("llama", head_size=32).save_pretrained(made)
    TOKENIZER.save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def server(folder, serve_vllm):
    return serve_vllm(folder)


@pytest.fixture
def ours(folder, server):
    return engine(server, folder)


def engine(server, folder, timeout=300.0, batch=64):
    return VllmEngine(VllmServer.open(server.url, timeout, folder, 256), folder, TOKENIZER, batch)


@pytest.mark.parametrize("settings", [ModelSection(), ModelSection(lora_rank=4, lora_alpha=8)], ids=["full", "lora"])
def test_weights_follow_an_optimiser_step(ours, settings):
    prompts = ragged_prompts(random.Random(1), 3)
    model = ours.model = set_trainable(ours.model, settings, 0, 0)
    before = ours.generate(prompts, Sampling(6, STOP), [0] * 4)
    model.train()
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], 0.5)
    for _ in range(2):  # one factor of an adapter is zero before the first step
        optimiser.zero_grad()
        model(torch.tensor([prompts[0]])).logits.log_softmax(-1)[..., 7].mean().neg().backward()
        optimiser.step()
    ours.reset()
    after = ours.generate(prompts, Sampling(6, STOP), [0] * 4)
    model.eval()
    assert_same(after, [decode_naively(model, ids, Sampling(6, STOP)) for ids in prompts], TOLERANCE)
    assert after[0].logprobs != pytest.approx(before[0].logprobs, abs=10 * TOLERANCE)


def test_what_conversations_share_is_cached(ours, server):
    start = some_tokens(random.Random(2), 160)
    prompts = [start + some_tokens(random.Random(i), 8) for i in range(4)]
    before = server.metric("vllm:prefix_cache_hits_total")
    ours.generate(prompts, Sampling(4, ()), range(4))
    ours.generate(prompts, Sampling(4, ()), range(4))
    assert server.metric("vllm:prefix_cache_hits_total") - before >= 4 * 128


def test_an_interrupt_cancels_what_is_under_way(ours, server, interruptible):
    ours.generate([[1, 2]], Sampling(1, ()), [0])

    def interrupt():
        end = time.monotonic() + 60
        while server.metric("vllm:num_requests_running") == 0 and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(100):
            ours.generate([[i, 2] for i in range(64)], Sampling(250, ()), range(64))
    end = time.monotonic() + 60
    while server.metric("vllm:num_requests_running") and time.monotonic() < end:
        time.sleep(0.2)
    assert server.metric("vllm:num_requests_running") == 0
    prompts = ragged_prompts(random.Random(3), 3)
    expected = [decode_naively(ours.model, ids, Sampling(5, STOP)) for ids in prompts]
    assert_same(ours.generate(prompts, Sampling(5, STOP), [0] * 4), expected, TOLERANCE)


def test_a_row_that_is_too_long_or_late_fails_alone(ours, server, folder):
    turns = ours.generate([[1, 2], [1] * 300], Sampling(4, ()), [0, 0])
    assert (len(turns[0].token_ids), turns[0].failure) == (4, "")
    assert turns[1].failure.startswith("vLLM refused a request (400): ")
    hurried = engine(server, folder)
    hurried.generate([[1]], Sampling(1, ()), [0])
    hurried.server._timeout = 0.001
    late = hurried.generate([[1, 2]], Sampling(250, ()), [0])[0]
    assert late.failure == "vLLM gave no answer within 0.001 seconds (vllm.timeout)"


def test_another_model_or_vocabulary_is_refused(server, tmp_path):
    for name, model, tokenizer, message in (
        ("heads", tiny_model("llama", head_size=16), TOKENIZER, "expected the architecture of"),
        ("words", tiny_model("llama", head_size=32), byte_tokenizer("plain"), "has another vocabulary than"),
    ):
        model.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        with pytest.raises(InputError, match=message):
            VllmServer.open(server.url, 300, tmp_path / name, 256)


def test_serving_a_folder_without_a_model_says_so(tmp_path):
    answer = subprocess.run(
        ["make", "serve", f"CHECKPOINT={tmp_path}"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert f"{tmp_path}: no model there" in answer.stderr


def test_a_server_that_is_killed_fails_what_it_owes_and_the_next_call(folder, server):
    """Last: the server is gone after it."""
    ours = engine(server, folder)
    ours.generate([[1]], Sampling(1, ()), [0])

    def kill():
        end = time.monotonic() + 60
        while server.metric("vllm:num_requests_running") == 0 and time.monotonic() < end:
            time.sleep(0.01)
        server.stop()

    threading.Thread(target=kill, daemon=True).start()
    lost = []
    for _ in range(100):
        turns = ours.generate([[i, 2] for i in range(64)], Sampling(250, ()), range(64))
        if lost := [turn for turn in turns if turn.failure]:
            break
    assert lost and f"the server at {server.url} stopped during a rollout" in lost[0].failure
    with pytest.raises(InputError, match=r"does not answer .*`make serve` starts one"):
        ours.generate([[1]], Sampling(1, ()), [0])
