"""Commands that need no model: they are quick, print results to stdout, and end with 2 on bad input."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_project import PARAMS, holds, run_command
from typer.testing import CliRunner

from talentrl import __version__
from talentrl.bank.bank import SkillBank
from talentrl.cli import app

HEAVY = ("torch", "transformers", "sentence_transformers", "mlflow", "scipy", "sklearn", "polars", "prefect", "dvc")

pytestmark = pytest.mark.usefixtures("project")


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["bank", "lint", "bank"], ["bank", "show", "bank"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    watch = f"import atexit, sys; atexit.register(lambda: print('heavy:', [m for m in {HEAVY} if m in sys.modules]))"
    result = run_command(*arguments, code=watch)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "heavy: []"


def test_version_and_help() -> None:
    assert invoke("--version").output == f"talentrl {__version__}\n"
    assert holds(invoke("--help").output, ["route", "ask", "profile", "bank"])
    nothing = invoke()
    assert nothing.exit_code == 2 and "Usage" in nothing.output


def test_lint_prints_counts_and_digest_in_one_line() -> None:
    result = invoke("bank", "lint")
    digest = SkillBank.load(Path("bank")).digest
    assert result.exit_code == 0
    assert result.stdout == f"bank: 2 talents, 2 skills, 0 warnings, digest {digest}\n"
    assert invoke("bank", "lint", "bank").stdout == result.stdout


def test_lint_shows_warnings_and_passes() -> None:
    page = Path("bank/skills/short-query/SKILL.md")
    page.write_text(page.read_text().replace("About short-query.", "long " * 300))
    result = invoke("bank", "lint")
    assert result.exit_code == 0
    assert "1 warnings" in result.stdout and result.stdout.count("\n") == 1
    assert result.stderr.startswith("warning: bank/skills/short-query/SKILL.md:3:")


def test_lint_prints_every_problem_on_a_line_of_stderr() -> None:
    page = Path("bank/talents/lookup/TALENT.md")
    page.write_text(page.read_text().replace("short-query: 1.0", "no-such: 1.5"))
    Path("bank/skills/copy-answer/SKILL.md").write_text("no front matter\n")
    result = run_command("bank", "lint")
    assert result.returncode == 2
    assert result.stdout == ""
    problems = result.stderr.splitlines()
    assert len(problems) == 2
    assert problems[0].startswith("bank/skills/copy-answer/SKILL.md:1: no front matter")
    assert problems[1].startswith("bank/talents/lookup/TALENT.md:5: ") and "1.5" in problems[1]


def test_show_lists_talents_with_associations_and_skills() -> None:
    for arguments in (["bank", "show"], ["bank", "show", "bank"]):
        result = invoke(*arguments)
        assert result.exit_code == 0
        assert holds(result.stdout, ["short-query (1), copy-answer (0.5)", "copy-answer (0.8)"])
        assert holds(result.stdout, ["copy-answer About copy-answer. lookup, verify"])


def test_show_one_talent_or_skill_in_full() -> None:
    talent = invoke("bank", "show", "lookup").stdout
    assert talent.startswith(Path("bank/talents/lookup/TALENT.md").read_text())
    assert holds(talent, ["short-query 1 About short-query.", "copy-answer 0.5 About copy-answer."])
    skill = invoke("bank", "show", "copy-answer").stdout
    # Markup in a page is text.
    assert skill.startswith(Path("bank/skills/copy-answer/SKILL.md").read_text())
    assert holds(skill, ["lookup 0.5 One fact about one thing.", "verify 0.8"])


def test_show_names_the_nearest_ids() -> None:
    result = invoke("bank", "show", "lokup")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: no talent or skill 'lokup' in bank; nearest: lookup")


def test_profile_writes_values_and_lists_changed_keys() -> None:
    result = invoke("profile", "cpu-full")
    assert result.exit_code == 0
    assert result.stdout == "seed\nretrieval.skills\n"
    written = Path("params.yaml").read_text()
    assert "# a comment that stays" in written and "skills: 4" in written
    assert invoke("profile", "cpu-full").stdout == "params.yaml holds the values of cpu-full already\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cpu-ful", "no profile 'cpu-ful' in profiles; nearest: cpu-full"),
        ("../params", "no profile '../params' in profiles; nearest: cpu-full"),
        ("broken", "unknown key 'retrieval.skils'; did you mean 'skills'?"),
    ],
)
def test_a_profile_that_cannot_be_applied_changes_nothing(name: str, message: str) -> None:
    if name == "broken":
        Path("profiles/broken.yaml").write_text("retrieval:\n  skils: 4\n")
    result = invoke("profile", name)
    assert result.exit_code == 2
    assert message in result.stderr
    assert Path("params.yaml").read_text() == PARAMS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bank", "lint", "elsewhere"], "elsewhere: no such folder"),
        (["bank", "show", "else/where"], "else/where: no such folder"),
        (["route", "Who?"], "no checkpoint in data/rl, data/sft or data/model: `make repro` makes one"),
        (["ask", "Who?"], "no checkpoint in data/rl, data/sft or data/model: `make repro` makes one"),
        (["ask", "Who?", "--checkpoint", "bank"], "data/bank.json: cannot be read"),
        (["ask", "Who?", "--checkpoint", "nowhere"], "'nowhere' does not exist"),
        (["ask", " "], "QUESTION: found ' ', expected words"),
        (["route", "caf\udce9"], "QUESTION: found 'caf\\udce9', expected words in valid text"),
        (["rout"], "No such command 'rout'"),
    ],
)
def test_bad_input_ends_with_code_2(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert holds(result.stderr, [message])
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", [["bank", "lint"], ["bank", "show"], ["profile", "cpu-full"], ["ask", "Who?"]])
def test_broken_or_missing_params_show_no_traceback(arguments: list[str]) -> None:
    SkillBank.load(Path("bank")).write_json(Path("data/bank.json"))
    Path("data/model").mkdir()
    for text, message in [("bank: {pth: bank}", "did you mean 'path'?"), (None, "params.yaml: no such file")]:
        Path("params.yaml").unlink()
        if text is not None:
            Path("params.yaml").write_text(text)
        result = run_command(*arguments)
        assert result.returncode == 2
        assert message in result.stderr and "Traceback" not in result.stderr
        Path("params.yaml").touch()


def test_an_unknown_talent_is_refused_before_the_model_loads() -> None:
    SkillBank.load(Path("bank")).write_json(Path("data/bank.json"))
    Path("data/model").mkdir()
    result = invoke("route", "Who?", "--talent", "verfy")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: no talent 'verfy' in data/bank.json; nearest: verify")


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("talentrl.cli.layout.newest_checkpoint", lambda: 1 / 0)
    assert isinstance(invoke("ask", "Who?").exception, ZeroDivisionError)


def test_interrupt_ends_with_130_and_no_noise() -> None:
    page = Path("bank/talents/lookup/TALENT.md")
    page.unlink()
    os.mkfifo(page)
    # A shell may have started the tests with the signal ignored.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from talentrl.cli import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "bank", "lint"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with page.open("w"):  # returns once the command waits for the page
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output == errors == b""
