"""`talentrl evaluate` and `averages`: a model answers a benchmark apart from the pipeline."""

import json
from pathlib import Path

import pytest
from cli_project import HashingEncoder, run_command, save_model
from typer.testing import CliRunner

from talentrl.cli import app
from talentrl.rollouts.episode import read_episodes


def write_questions(path: Path) -> None:
    """Three items of HotpotQA with two paragraphs each; the second answer is in none."""
    facts = [("Peru", "Lima"), ("Chile", "Quito"), ("Fiji", "Suva")]
    items = [
        {"id": name, "split": "dev", "question": f"Capital of {name}?", "answers": [city], "type": "bridge"}
        | {
            "context": [
                {"title": name, "text": f"{name} has {city if name != 'Chile' else 'a capital'}.", "supporting": True}
            ]
        }
        for name, city in facts
    ]
    path.write_text("\n".join(map(json.dumps, items)))


@pytest.fixture
def benchmark(project, monkeypatch):
    from talentrl.evaluation import benchmark
    from talentrl.rollouts import assembly

    save_model(Path("data/model"))
    write_questions(Path("hotpot.jsonl"))
    for module in (assembly, benchmark):
        monkeypatch.setattr(module, "open_encoder", lambda settings: HashingEncoder())
    return project


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_a_benchmark_is_answered_and_its_figures_and_episodes_kept(benchmark):
    done = invoke("evaluate", "--benchmark", "hotpotqa", "--path", "hotpot.jsonl", "--tasks", "2")
    assert done.exit_code == 0, done.output
    assert "zero_shot" in done.output and "0.000 to" in done.output
    assert "Passages can answer 2 of the 3 questions of split dev." in done.output
    root = Path("benchmark_runs/hotpotqa")
    record = json.loads((root / "scores.json").read_text())
    assert record["params"]["evaluate"] == {"split": "dev", "tasks": 2, "systems": ["zero_shot", "flat"]}
    assert record["card"]["counts"] == {"dev": 3}
    episodes = read_episodes(root / "data/evaluation/flat-3.parquet")
    assert episodes["task_id"].to_list() == ["Peru", "Chile"]
    assert episodes["intervention"].unique().to_list() == ["null"]
    assert episodes["environment"].str.contains("^qa/1 [0-9a-f]{12}$").all()
    assert not Path("data/evaluation").exists(), "the pipeline's own files are left alone"
    averages = invoke("averages", "--metric", "f1")
    assert averages.exit_code == 0 and all(word in averages.output for word in ("hotpotqa", "macro", "micro"))


def test_settings_come_from_params_then_profile_then_options(benchmark):
    Path("profiles/hotpotqa.yaml").write_text("rollout:\n  turns: 2\n  turn_tokens: 4\n")
    run = ("evaluate", "--benchmark", "hotpotqa", "--path", "hotpot.jsonl", "--split", "dev", "--system", "flat")
    assert invoke(*run, "--set", "rollout.turns=1", "--output", "elsewhere").exit_code == 0
    used = json.loads(Path("elsewhere/scores.json").read_text())["params"]["rollout"]
    assert (used["turns"], used["turn_tokens"], used["routing_tokens"]) == (1, 4, 8)
    assert not Path("benchmark_runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark", "hotpot"], "tasks.benchmark: found 'hotpot', expected"),
        (["--benchmark", "hotpotqa"], "tasks.path: found null, expected the file or folder of benchmark 'hotpotqa'"),
        (["--benchmark", "hotpotqa", "--path", "none.jsonl"], "none.jsonl: no such file"),
        (["--benchmark", "hotpotqa", "--path", "hotpot.jsonl", "--split", "test"], "no split 'test': found ['dev']"),
        (["--benchmark", "hotpotqa", "--path", "hotpot.jsonl", "--system", "best"], "found 'best', expected"),
        (["--benchmark", "alfworld", "--path", "none"], "none"),
        (["--benchmark", "webshop", "--path", "none"], "none"),
        (["--benchmark", "hotpotqa", "--set", "rollout.turn=1"], "unknown key 'rollout.turn'; did you mean 'turns'?"),
        (["--benchmark", "hotpotqa", "--set", "turns"], "found 'turns', expected KEY=VALUE"),
    ],
)
def test_bad_input_is_one_line_and_code_2_and_writes_nothing(project, arguments, message):
    write_questions(Path("hotpot.jsonl"))
    done = run_command("evaluate", *arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr and not Path("benchmark_runs").exists()


def test_averages_say_what_is_missing(project):
    done = run_command("averages")
    assert done.returncode == 2 and "benchmark_runs: no episodes of" in done.stderr
