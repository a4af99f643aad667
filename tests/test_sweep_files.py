"""Sweep files: what a good one gives, and what is said about a bad one."""

import subprocess
import sys
from pathlib import Path

import pytest

from talentrl.bank.bank import SkillBank
from talentrl.config import Params, load_params
from talentrl.errors import InputError
from talentrl.learning.arms import arms_per_task
from talentrl.sweep import Sweep, load_sweep

REPOSITORY = Path(__file__).parents[1]
SHIPPED = sorted((REPOSITORY / "sweeps").glob("*.yaml"))


@pytest.fixture
def write(tmp_path):
    """Writes a sweep file and returns its path."""

    def write(text):
        path = tmp_path / "try.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problem(path):
    """The one line that refuses the file, without the file's name, which it begins with."""
    with pytest.raises(InputError) as caught:
        load_sweep(path, Params())
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


def test_a_rows_settings_are_params_then_shared_then_its_own(write):
    rows = "rows: {a: {}, b-2_x: {rl: {steps: 5}, seed: 1}}"
    path = write(f"target: rl\nreference: a\nshared: {{rl: {{steps: 2, tasks: 3}}}}\n{rows}")
    sweep = load_sweep(path, Params(seed=9))
    assert (sweep.name, sweep.target, sweep.reference, list(sweep.rows)) == ("try", "rl", "a", ["a", "b-2_x"])
    first, second = sweep.rows.values()
    assert (first.changes, second.changes) == ({}, {"rl": {"steps": 5}, "seed": 1})
    assert (first.params.seed, first.params.rl.steps, first.params.rl.tasks) == (9, 2, 3)
    assert (second.params.seed, second.params.rl.steps, second.params.rl.tasks) == (1, 5, 3)
    assert second.params.sft == Params().sft


def test_what_may_be_left_out(write):
    assert load_sweep(write("reference: a\nrows: {a: {}}"), Params()).target == "evaluate"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # The file.
        ("", "found NoneType, expected a mapping of sections"),
        ("[a]", "found list, expected a mapping of sections"),
        ("a: [", "not valid YAML: "),
        ("reference: a\nrows: {a: {}, a: {}}", "not valid YAML: "),
        ("reference: a\nrows: {a: {}}\nsharde: {}", "unknown key 'sharde'; did you mean 'shared'?"),
        ("reference: a\nrows: {a: {}}\nzzz: 1", "unknown key 'zzz'; expected one of ['reference', 'rows', 'shared', "),
        ("rows: {a: {}}", "missing key 'reference'"),
        ("reference: 3\nrows: {a: {}}", "reference: found 3, expected a valid string"),
        ("reference: b\nrows: {a: {}, c: {seed: 1}}", "reference: found 'b', expected one of a, c"),
        ("reference: a\ntarget: [rl]\nrows: {a: {}}", "target: found ['rl'], expected a valid string"),
        # The rows as a whole, and their names.
        ("reference: a", "missing key 'rows'"),
        ("reference: a\nrows: {}", "rows: found {}, expected at least one item"),
        ("reference: a\nrows:", "rows: found None, expected a mapping of keys to values"),
        ("reference: a\nrows: [a]", "rows: found ['a'], expected a mapping of keys to values"),
        ("reference: a\nrows: {A b: {}}", "rows: found key 'A b', expected text that matches ^[a-z0-9][a-z0-9_-]*$"),
        ("reference: a\nrows: {../a: {}}", "rows: found key '../a', expected text that matches ^[a-z0-9][a-z0-9_-]*$"),
        ("reference: a\nrows: {1: {}}", "rows: found key 1, expected a valid string"),
        # Settings.
        ("reference: a\nrows:\n  a:", "rows.a: found None, expected a mapping of keys to values"),
        ("reference: a\nrows: {a: 3}", "rows.a: found 3, expected a mapping of keys to values"),
        ("reference: a\nshared: 3\nrows: {a: {}}", "shared: found 3, expected a mapping of keys to values"),
        ("reference: a\nshared: {rll: {}}\nrows: {a: {}}", "shared: unknown key 'rll'; did you mean 'rl'?"),
        (
            "reference: a\nshared: {rl: {stepz: 1}}\nrows: {a: {}}",
            "shared: unknown key 'rl.stepz'; did you mean 'steps'?",
        ),
        ("reference: a\nrows: {a: {}, b: {sed: 1}}", "row b: unknown key 'sed'; did you mean 'seed'?"),
        ("reference: a\nrows: {a: {rl: {stepz: 1}}}", "row a: unknown key 'rl.stepz'; did you mean 'steps'?"),
        ("reference: a\nrows: {a: {rl: {steps: two}}}", "row a: rl.steps: found 'two', expected a valid integer"),
        ("reference: a\nrows: {a: {rl: 3}}", "row a: rl: found 3, expected a mapping of keys to values"),
        ("reference: a\nrows: {a: {rl: {start: sftt}}}", "row a: rl.start: found 'sftt', expected 'sft' or 'model'"),
        (
            "reference: a\nrows: {a: {rl: {interventions: [null]}}}",  # YAML's null, where its name was meant
            "row a: rl.interventions.0: found None, expected 'null', 'strategy_only' or 'skills_only'",
        ),
        (
            "reference: a\nrows: {a: {}, b: {rl: {arms: 0}}}",  # before any row trains, not hours later
            "row b: rl.arms and rl.rollouts: found 0 a task, expected at least two rollouts to compare",
        ),
        # Rows beside each other.
        (
            "reference: a\nrows: {a: {seed: 1}, b: {seed: 2}, c: {seed: 1}}",
            "row c: has the settings of row a, expected other ones",
        ),
        (
            "reference: a\nrows: {a: {}, b: {rl: {steps: 8}}}",  # what params has anyway
            "row b: has the settings of row a, expected other ones",
        ),
        (
            "reference: a\nrows: {a: {evaluate: {systems: [sft, flat]}}}",
            "row a: evaluate.systems: found ['sft', 'flat'], expected rl among them: "
            "the other rows are compared with it",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(write, text, words):
    assert problem(write(text)).startswith(words)


def test_a_missing_file(tmp_path):
    assert problem(tmp_path / "none.yaml") == "no such file"


@pytest.mark.parametrize("name", ["My sweep", "a.v2", "_a"])
def test_a_file_name_that_cannot_name_the_sweep(write, name):
    path = write("reference: a\nrows: {a: {}}")
    path = path.rename(path.with_name(f"{name}.yaml"))
    assert problem(path) == f"found the file name {name!r}, expected text that matches ^[a-z0-9][a-z0-9_-]*$"


def test_all_problems_of_a_row_are_listed(write):
    path = write("reference: a\nrows: {a: {seed: -1, rl: {stepz: 1}}}")
    with pytest.raises(InputError) as caught:
        load_sweep(path, Params())
    assert str(caught.value).splitlines() == [
        f"{path}: row a: seed: found -1, expected greater than or equal to 0",
        f"{path}: row a: unknown key 'rl.stepz'; did you mean 'steps'?",
    ]


def test_the_command_line_refuses_a_bad_file_before_anything_starts(write):
    path = write("reference: a\nrows: {a: {rl: {stepz: 1}}}")
    done = subprocess.run(
        [sys.executable, "-m", "flows.sweep", str(path)], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"sweep: {path}: row a: unknown key 'rl.stepz'; did you mean 'steps'?\n"


def shipped(path: Path) -> Sweep:
    return load_sweep(path, load_params(REPOSITORY / "params.yaml"))


def test_there_are_shipped_sweeps():
    assert "ablations" in {path.stem for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_sweep_loads(path):
    sweep = shipped(path)
    assert sweep.reference in sweep.rows
    assert all(len(row.params.evaluate.systems) == len(set(row.params.evaluate.systems)) for row in sweep.rows.values())


ABLATIONS = shipped(REPOSITORY / "sweeps" / "ablations.yaml")
TALENTS = len(SkillBank.load(REPOSITORY / "banks" / "search_qa").talents)


def rollouts(params: Params) -> int:
    """Of one training seed's online steps."""
    return params.rl.steps * params.rl.tasks * arms_per_task(params.rl, TALENTS) * params.rl.rollouts


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_rows_are_compared_at_the_reference_budget(path):
    """Rollouts, supervised steps, demonstrated tasks, and the tasks that are trained and tested on."""
    sweep = shipped(path)
    reference = sweep.rows[sweep.reference].params
    same = {"seed", "model", "bank", "tasks"}
    for name, row in sweep.rows.items():
        params = row.params
        assert rollouts(params) == rollouts(reference), name
        assert params.sft.epochs * (1 + params.demos.forced_arms) == 3, name  # conversations of a task, times passes
        assert params.demos.tasks == reference.demos.tasks, name
        assert (params.rl.steps, params.rl.tasks) == (reference.rl.steps, reference.rl.tasks), name
        assert params.evaluate.model_copy(update={"systems": reference.evaluate.systems}) == reference.evaluate, name
        assert params.model_dump(include=same) == reference.model_dump(include=same), name
        # What training did not make is the same for all seeds.
        assert params.seeds == reference.seeds or params.evaluate.systems == ["zero_shot"], name


def test_an_ablation_changes_one_part():
    """Which sections a row touches; only training without any talent takes several."""
    touched = {row.name: set(row.changes) for row in ABLATIONS.rows.values()}
    assert touched.pop("reference") == {"evaluate"}  # more systems
    assert touched.pop("flat") == {"demos", "sft", "rl", "evaluate"}
    assert all(len(sections) == 1 for sections in touched.values())
