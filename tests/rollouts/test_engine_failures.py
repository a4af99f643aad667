"""Turns that an engine lost: failed episodes, and the other rollouts go on."""

from pathlib import Path

import pytest
from rollout_samples import CHAT, OTHER, TASK, ScriptedEngine, make_runner, request

from talentrl.config import parse_params
from talentrl.errors import InputError
from talentrl.policy.engine import Generation
from talentrl.rollouts.assembly import open_engine
from talentrl.rollouts.episode import episodes_frame


class LosingEngine(ScriptedEngine):
    """Loses turns in conversations about OTHER."""

    def generate(self, prompts, sampling, seeds):
        lost = Generation([], [], stopped=False, failure="the server is gone")
        turns = super().generate(prompts, sampling, seeds)
        pairs = zip(prompts, turns, strict=True)
        return [lost if OTHER.instruction in CHAT.decode(ids) else turn for ids, turn in pairs]


@pytest.fixture
def runner():
    made = make_runner(lambda conversation, seed: "")
    made.engine = LosingEngine(lambda conversation, seed: "<answer>y</answer>")
    return made


def test_a_lost_turn_fails_its_rollout_alone(runner):
    good, bad = runner.run([request(runner), request(runner, task=OTHER)], temperature=0.0)
    assert (good.value, good.error) == (1.0, None)
    assert (bad.value, bad.error, bad.stop_reason.value) == (None, "the server is gone", "error")
    assert len(runner.engine.calls) == 1
    assert episodes_frame([good, bad])["error"].to_list() == [None, "the server is gone"]


def test_a_lost_routing_turn_ends_the_run(runner):
    with pytest.raises(InputError, match=r"rollout\.engine: a routing turn failed: the server is gone"):
        runner.route([TASK, OTHER], [0, 0])


def test_the_engine_that_is_asked_for_is_opened():
    params = parse_params({"rollout": {"engine": "vllm"}, "vllm": {"url": "http://127.0.0.1:9"}}, "test")
    message = "vllm.url: the server at http://127.0.0.1:9 does not answer .*`make serve` starts one"
    with pytest.raises(InputError, match=message):
        open_engine(params, Path("data/model"), CHAT.tokenizer)
    with pytest.raises(InputError, match=r"rollout\.engine"):
        parse_params({"rollout": {"engine": "sglang"}}, "test")
