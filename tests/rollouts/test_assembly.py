"""From params and files to a runner: a small real project, and what is said when a part is missing or broken."""

import json
import math
import pickle
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rollout_samples import BANK, TASK, WORDS
from tiny_models import byte_tokenizer, tiny_model

from talentrl import layout
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, TASK_SCHEMA, TaskSet
from talentrl.config import Params, RetrievalSection, parse_params
from talentrl.errors import InputError
from talentrl.rollouts import assembly
from talentrl.rollouts.episode import episodes_frame
from talentrl.rollouts.interventions import Arm
from talentrl.rollouts.runner import RolloutRequest


class CountingEncoder:
    """Counts of hashed words."""

    dimension = 8
    fingerprint = "counting-1"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors = np.full((len(texts), self.dimension), 0.1, dtype=np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            for word in text.lower().split():
                vector[zlib.crc32(word.encode()) % self.dimension] += 1
            vector /= np.linalg.norm(vector)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode(texts)


def make_tasks(passages):
    tasks = [
        {"task_id": f"t{i}", "benchmark": "atlas", "split": "test", "instruction": f"What is fact {i}?"}
        | {"answers": [str(i)], "payload": json.dumps({})}
        for i in range(9)
    ]
    return TaskSet(pl.DataFrame(tasks, schema=TASK_SCHEMA), pl.DataFrame(passages, schema=PASSAGE_SCHEMA, orient="row"))


def settings(**rollout) -> Params:
    values = {
        "rollout": {"turns": 3, "routing_tokens": 6, "turn_tokens": 6, **rollout},
        "model": {"max_tokens": 900},
        "retrieval": {"skills": 1, "passages": 1},
    }
    return parse_params(values, "test")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The working directory: compiled bank, task set, indices and a random model in their places."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(assembly, "open_encoder", lambda settings: CountingEncoder())
    BANK.write_json(layout.BANK)
    make_tasks([(f"p{i}", "Facts", f"Fact {i} is {i}.") for i in range(5)]).write(layout.TASKS)
    assembly.build_indices(BANK, "qa", CountingEncoder(), RetrievalSection())
    tiny_model("llama", positions=1024).save_pretrained(layout.MODEL)
    byte_tokenizer("plain", WORDS).save_pretrained(layout.MODEL)
    return tmp_path


def test_outcomes_do_not_depend_on_the_batch(project):
    """Real model, real indices: with batch 1, 4 and 7 every episode is the same, to the token."""
    frames = []
    for batch in (1, 4, 7):
        runner = assembly.open_runner(settings(batch=batch), layout.MODEL)
        tasks = TaskSet.read(layout.TASKS).split("test")
        routings = runner.route(tasks, [0] * len(tasks))
        requests = [
            RolloutRequest(Arm(task, "routed", routing.talent), routing, 0, seed=3)
            for task, routing in zip(tasks, routings, strict=True)
        ]
        requests += [
            RolloutRequest(Arm(task, "forced", "a"), runner.set_routing("a"), m, seed=m)
            for task in tasks[:3]
            for m in range(2)
        ]
        for temperature in (0.0, 1.0):
            frames.append(episodes_frame(runner.run(requests, temperature)).drop("seconds", "logprobs"))
    for greedy, sampled in (frames[2:4], frames[4:6]):
        assert greedy.equals(frames[0].with_columns(routing_probability=greedy["routing_probability"]))
        assert sampled.equals(frames[1].with_columns(routing_probability=sampled["routing_probability"]))
    assert frames[0]["token_ids"].to_list() != frames[1]["token_ids"].to_list()
    assert set(frames[0]["stop_reason"]) <= {"answered", "turn_limit"}


def test_records_say_what_they_were_made_with(project):
    runner = assembly.open_runner(settings(), layout.MODEL)
    routing = runner.set_routing("b")
    episode = runner.run([RolloutRequest(Arm(TASK, "forced", "b"), routing, 0, 0)], temperature=0.0)[0]
    assert episode.checkpoint.startswith("data/model@")
    assert len(episode.checkpoint) == len("data/model@") + 12
    assert (episode.bank_digest, episode.encoder) == (BANK.digest, "counting-1")
    assert [skill.id for skill in episode.skills] == ["read"], "the talent's own skill"


def test_what_a_talent_shows_is_up_to_params_and_the_intervention(project):
    """On the real index: the prior picks the talent's skill, and without it the skill is that of the null arm."""
    params = settings(show_strategy=False)
    hard = params.retrieval.model_copy(update={"prior_weight": math.inf})
    texts = {}
    for name, chosen in (
        ("hard", params.model_copy(update={"retrieval": hard})),
        ("shown", parse_params(params.model_dump() | {"rollout": {"show_strategy": True}}, "test")),
    ):
        runner = assembly.open_runner(chosen, layout.MODEL)
        for talent in ("a", "b", None):
            for intervention in ("forced", "strategy_only", "skills_only") if talent else ("null",):
                arm = Arm(TASK, intervention, talent)
                texts[name, intervention, talent] = arm.context(runner.bank, runner.retriever, 1, runner.show_strategy)[
                    0
                ]
    for intervention in ("forced", "skills_only"):
        assert texts["hard", intervention, "a"] == "find: Do it."
        assert texts["hard", intervention, "b"] == "read: Do it."
    for talent in ("a", "b"):
        assert texts["hard", "strategy_only", talent] == texts["hard", "null", None]
    assert texts["shown", "strategy_only", "b"] == f"Strategy: Be quick.\n{texts['shown', 'null', None]}"
    assert texts["shown", "forced", "b"] == f"Strategy: Be quick.\n{texts['shown', 'skills_only', 'b']}"


def test_passages_are_found_with_their_title(project):
    runner = assembly.open_runner(settings(), layout.MODEL)
    environment = runner.environment(TASK)
    from talentrl.policy.parser import Action

    observation = environment.step(Action("search", "Fact 3 is")).observation
    assert observation == "<information>Facts: Fact 3 is 3.</information>"


def test_an_environment_can_be_pickled_at_work(project):
    from talentrl.policy.parser import Action

    environment = assembly.open_runner(settings(), layout.MODEL).environment(TASK)
    copy = pickle.loads(pickle.dumps(environment))
    assert copy.version == environment.version and re.fullmatch("qa/1 [0-9a-f]{12}", copy.version)
    search = Action("search", "Fact 3 is")
    assert copy.step(search) == environment.step(search)


def test_a_fingerprint_follows_the_weights(project):
    before = assembly.fingerprint(layout.MODEL)
    assert assembly.fingerprint(layout.MODEL) == before
    tiny_model("llama", positions=1024, seed=1).save_pretrained(layout.MODEL)
    assert assembly.fingerprint(layout.MODEL) != before


def spoil_weights(project):
    (layout.MODEL / "model.safetensors").write_bytes(b"nothing")


def spoil_bank(project):
    layout.BANK.write_text("{}")


def remove(path):
    def change(project):
        target = project / path
        target.rename(target.with_suffix(".gone"))

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (remove("data/model"), "^data/model: no such folder"),
        (spoil_weights, "^data/model: not a Hugging Face model folder"),
        (remove("data/model/tokenizer.json"), "^data/model: not a Hugging Face model folder"),
        (remove("data/bank.json"), "^data/bank.json: cannot be read"),
        (spoil_bank, "^data/bank.json: not a compiled skill bank"),
        (remove("data/index/passages"), "data/index/passages"),
        (remove("data/index/skills"), "data/index/skills"),
        (remove("data/tasks/passages.parquet"), "^data/tasks/passages.parquet: no such file"),
    ],
)
def test_a_missing_or_broken_part_is_named_in_one_line(project, change, words):
    change(project)
    with pytest.raises(InputError, match=words) as caught:
        assembly.open_runner(settings(), layout.MODEL)
    assert "\n" not in str(caught.value)


def test_an_index_of_another_bank_is_refused(project):
    from talentrl.bank import SkillBank, Talent

    SkillBank({"find": BANK.skills["find"]}, {"a": Talent("a", "a", "x", "Go.", {})}).write_json(layout.BANK)
    with pytest.raises(InputError, match="rebuild the index"):
        assembly.open_runner(settings(), layout.MODEL)


def test_a_menu_longer_than_the_context_is_refused(project):
    params = parse_params({"model": {"max_tokens": 100}}, "test")
    with pytest.raises(InputError, match="the talent menu of 2 talents takes"):
        assembly.open_runner(params, layout.MODEL)


def test_an_empty_passage_set_is_refused_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_tasks([]).write(layout.TASKS)
    message = "^data/tasks/passages.parquet: the passage set is empty, expected at least one passage$"
    with pytest.raises(InputError, match=message):
        assembly.build_indices(BANK, "qa", CountingEncoder(), RetrievalSection())
    assert sorted(path.name for path in Path("data").iterdir()) == ["tasks"]
