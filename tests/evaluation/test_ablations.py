"""The table of a sweep: paired differences, Holm's adjustment, costs, and rows that have not run."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl import layout
from talentrl.config import Params
from talentrl.errors import InputError
from talentrl.evaluation.ablations import RECORD, TABLE_SCHEMA, ablation_table, holm, is_finished, write_tables
from talentrl.files import write_text
from talentrl.learning.history import write_history
from talentrl.rollouts.episode import Episode, episodes_frame, write_episodes
from talentrl.sweep import Row, Sweep, load_sweep

ROWS = """\
reference: base
shared: {seeds: [1], evaluate: {systems: [rl]}}
rows:
  base: {}
  one_step: {rl: {steps: 1}}
  null_arm: {rl: {arms: 3, interventions: ["null"]}}
"""
# Return of each task; a list is one return an arm.
BASE = {"t1": 0, "t2": 0, "t3": 0, "t4": 1, "t5": 0, "t6": 0}
FIVE_WINS_ONE_LOSS = {"t1": 1, "t2": 1, "t3": 1, "t4": 0, "t5": 1, "t6": 1}


@pytest.fixture
def sweep(tmp_path: Path):
    """Reads a sweep from its text; its rows' folders are in `tmp_path / "runs"`."""

    def sweep(text: str = ROWS, params: Params | None = None) -> Sweep:
        (tmp_path / "try.yaml").write_text(text)
        return load_sweep(tmp_path / "try.yaml", params or Params())

    return sweep


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def episodes(returns, question="Question of {}?"):
    rows = []
    for task, values in returns.items():
        for arm, value in enumerate(values if isinstance(values, list) else [values]):
            value = None if value is None else float(value)
            ids = (f"{task}/{arm}", task, "atlas", "test", question.format(task), ["x"], f"forced:{arm}")
            rows.append(Episode(*ids, "forced", f"talent-{arm}", 0, 0, "m", "b", "e", value=value))
    return episodes_frame(rows)


def finish(runs: Path, row: Row, evaluations, rollouts=(), step_times=(), dirty=False, **more) -> None:
    """Leave what a finished row leaves: `evaluations` is {system: returns, or one dict of returns a training seed};
    `rollouts` are those of each seed's training, `step_times` its steps' seconds."""
    place = runs / row.name
    for system, by_seed in evaluations.items():
        for seed, returns in zip(row.params.seeds, by_seed if isinstance(by_seed, list) else [by_seed], strict=True):
            write_episodes(place / layout.EVALUATION / f"{system}-{seed}.parquet", episodes(returns, **more))
    for seed, count in zip(row.params.seeds, rollouts or [0] * len(row.params.seeds), strict=True):
        frame = episodes({f"train-{i}": 0 for i in range(count)})
        write_episodes(place / layout.RL_EPISODES / f"{seed}.parquet", frame.with_columns(step=pl.lit(0)))
    for seed, times in zip(row.params.seeds, step_times or [[]] * len(row.params.seeds), strict=True):
        history = [{"step": step, "step_time": seconds} for step, seconds in enumerate(times, 1)]
        write_history(place / layout.METRICS / "history" / f"rl-{seed}.json", history)
    record = {"params": row.params.model_dump(), "commit": "0123456789abcdef", "dirty": dirty}
    write_text(place / RECORD, json.dumps(record))


def line(table: pl.DataFrame, row: str, system: str = "rl") -> dict:
    return table.row(by_predicate=(pl.col("row") == row) & (pl.col("system") == system), named=True)


def test_differences_are_paired_by_task(sweep, runs):
    plan = sweep()
    finish(runs, plan.rows["base"], {"rl": BASE})
    finish(runs, plan.rows["one_step"], {"rl": dict(reversed(FIVE_WINS_ONE_LOSS.items()))})
    table = ablation_table(plan, runs)
    assert table.schema == TABLE_SCHEMA
    one = line(table, "one_step")
    assert (one["return"], one["tasks"], one["changes"]) == (pytest.approx(5 / 6), 6, "rl.steps=1")
    assert one["difference"] == pytest.approx(4 / 6)
    assert one["difference_low"] < 4 / 6 < one["difference_high"] <= 1
    assert one["low"] < 5 / 6 < one["high"]
    # McNemar: two-sided P(at least 5 of 6 or at most 1 of 6).
    assert one["p_value"] == one["p_holm"] == pytest.approx(14 / 64)
    base = line(table, "base")
    assert base["return"] == pytest.approx(1 / 6) and base["difference"] is base["p_value"] is base["p_holm"] is None


def test_seeds_are_averaged_inside_a_task(sweep, runs):
    """Two trainings: the tasks' means are .5 and 1 against 0 and .5, so there are two differences of .5, not four."""
    plan = sweep(ROWS.replace("seeds: [1]", "seeds: [1, 2]"))
    finish(runs, plan.rows["base"], {"rl": [{"a": 0, "b": 0}, {"a": 0, "b": 1}]})
    finish(runs, plan.rows["one_step"], {"rl": [{"a": 1, "b": 1}, {"a": 0, "b": 1}]})
    table = ablation_table(plan, runs)
    one = line(table, "one_step")
    assert (one["return"], one["tasks"], one["seeds"]) == (0.75, 2, 2)
    # Sign flips: ++ and −− of four patterns are as extreme. The interval of two equal differences has no width.
    assert (one["difference"], one["p_value"]) == (0.5, 0.5)
    assert (one["difference_low"], one["difference_high"]) == (0.5, 0.5)


def test_oracle_is_its_best_arm_and_a_failed_rollout_earns_nothing(sweep, runs):
    plan = sweep(ROWS.replace("systems: [rl]", "systems: [rl, oracle]"))
    finish(runs, plan.rows["base"], {"rl": {"a": None, "b": 1}, "oracle": {"a": [0, 1, None], "b": [0, 0, 0]}})
    table = ablation_table(plan, runs)
    assert line(table, "base")["return"] == 0.5
    oracle = line(table, "base", "oracle")
    assert (oracle["return"], oracle["difference"]) == (0.5, 0.0), "1 − 0 on a, 0 − 1 on b"


def test_holm_by_hand():
    # Sorted: .005 · 4, .01 · 3, .03 · 2, and .04 · 1, which is raised to the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_lowers_no_p_value_keeps_their_order_and_ends_at_one(p_values):
    adjusted = holm(p_values)
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert all(p <= q <= 1 for p, q in pairs)
    assert [q for _, q in pairs] == sorted(adjusted)
    assert all(q == min(1.0, p * len(p_values)) for p, q in pairs[:1]), "the smallest is Bonferroni's"


def test_holm_counts_the_lines_that_are_compared_and_no_others(sweep, runs):
    """Three lines: p is 14/64, 1 and 1 (nothing differs). Rows that have not run and the reference do not count."""
    plan = sweep(ROWS.replace("systems: [rl]", "systems: [rl, flat]"))
    finish(runs, plan.rows["base"], {"rl": BASE, "flat": BASE})
    finish(runs, plan.rows["one_step"], {"rl": FIVE_WINS_ONE_LOSS, "flat": BASE})
    table = ablation_table(plan, runs)
    assert table["p_value"].to_list() == pytest.approx([None, 1.0, 14 / 64, 1.0, None, None])
    assert table["p_holm"].to_list() == pytest.approx([None, 1.0, 3 * 14 / 64, 1.0, None, None])


def test_rows_that_have_not_run_are_shown_as_such(sweep, runs):
    plan = sweep()
    finish(runs, plan.rows["one_step"], {"rl": BASE})
    (runs / "null_arm").mkdir()  # begun
    table = ablation_table(plan, runs)
    assert table.select("row", "status").rows() == [
        ("base", "not run"),
        ("one_step", "finished"),
        ("null_arm", "not run"),
    ]
    assert line(table, "one_step")["difference"] is None, "there is nothing yet to compare it with"
    rest = table.filter(status="not run").drop("row", "system", "changes", "status")
    assert rest.null_count().row(0) == (2,) * rest.width


def test_a_row_whose_settings_changed_has_not_run(sweep, runs):
    plan = sweep()
    for row in plan.rows.values():
        finish(runs, row, {"rl": BASE})
    changed = sweep(ROWS.replace("steps: 1", "steps: 2"))
    assert [is_finished(runs / row.name, row) for row in changed.rows.values()] == [True, False, True]
    assert line(ablation_table(changed, runs), "one_step")["status"] == "not run"
    others = sweep(params=Params(seed=8))  # params.yaml counts as well
    assert not any(is_finished(runs / row.name, row) for row in others.rows.values())


def test_keys_of_params_that_come_and_go(sweep, runs):
    """A record from before a key existed counts with the key's default, one with a key that is gone does not count."""
    plan = sweep()
    row = plan.rows["one_step"]
    finish(runs, row, {"rl": BASE})
    record = json.loads((runs / "one_step" / RECORD).read_text())
    del record["params"]["rl"]["start"], record["params"]["rollout"]
    write_text(runs / "one_step" / RECORD, json.dumps(record))
    assert is_finished(runs / "one_step", row)
    other = sweep(ROWS.replace("steps: 1", "steps: 1, start: model")).rows["one_step"]
    assert not is_finished(runs / "one_step", other)
    record["params"]["rl"]["group"] = 8
    write_text(runs / "one_step" / RECORD, json.dumps(record))
    assert not is_finished(runs / "one_step", row)


def test_infinity_and_lists_are_the_same_settings_when_read_again(sweep, runs):
    plan = sweep("reference: a\nrows: {a: {retrieval: {prior_weight: .inf}, seeds: [3, 4]}}")
    finish(runs, plan.rows["a"], {"rl": [{"t": 1}, {"t": 1}]})
    assert is_finished(runs / "a", plan.rows["a"])


def test_costs_are_those_of_training_over_all_seeds(sweep, runs):
    plan = sweep(ROWS.replace("seeds: [1]", "seeds: [1, 2]").replace("[rl]", "[zero_shot, sft, rl, flat]"))
    systems = dict.fromkeys(["zero_shot", "sft", "rl", "flat"], [{"a": 1, "b": 0}] * 2)
    finish(runs, plan.rows["base"], systems, [3, 4], [[1.5, 2.0], [4.0]], dirty=True)
    table = ablation_table(plan, runs)
    for system in ("rl", "flat"):
        found = line(table, "base", system)
        assert (found["rollouts"], found["rl_seconds"], found["seeds"]) == (7, 7.5, 2)
    for system in ("zero_shot", "sft"):  # the reinforcement stage had no part in these
        found = line(table, "base", system)
        assert (found["rollouts"], found["rl_seconds"]) == (0, 0.0)
    assert set(table["commit"].drop_nulls()) == {"0123456789+changes"}


def test_a_row_evaluated_on_other_tasks_is_refused(sweep, runs):
    plan = sweep()
    finish(runs, plan.rows["base"], {"rl": BASE})
    finish(runs, plan.rows["one_step"], {"rl": {"t1": 1, "t2": 0}})
    with pytest.raises(InputError) as caught:
        ablation_table(plan, runs)
    assert str(caught.value) == (
        "systems 'one_step/rl' and 'base/rl' differ in tasks: 4 only in 'base/rl', such as 't3'; "
        "expected the same tasks"
    )


def test_a_row_whose_tasks_have_the_same_ids_but_other_questions_is_refused(sweep, runs):
    """A generated task set of another seed numbers its tasks alike."""
    plan = sweep()
    finish(runs, plan.rows["base"], {"rl": BASE})
    finish(runs, plan.rows["one_step"], {"rl": BASE}, question="Another question of {}?")
    with pytest.raises(InputError) as caught:
        ablation_table(plan, runs)
    assert str(caught.value) == (
        "row one_step: task 't1' is another one than in row base: "
        "found 'Another question of t1?', expected 'Question of t1?'"
    )


@pytest.mark.parametrize(
    "file", ["data/evaluation/rl-1.parquet", "data/rl_episodes/1.parquet", "metrics/history/rl-1.json"]
)
@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_a_finished_rows_file_that_is_missing_or_broken_is_named(sweep, runs, file, content):
    plan = sweep()
    finish(runs, plan.rows["base"], {"rl": BASE})
    path = runs / "base" / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        ablation_table(plan, runs)
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_the_files_hold_the_table(sweep, runs):
    plan = sweep(ROWS.replace("systems: [rl]", "systems: [rl, sft]"))
    finish(runs, plan.rows["base"], {"rl": BASE, "sft": FIVE_WINS_ONE_LOSS}, [1200], [[1234.4, 1.0]])
    finish(runs, plan.rows["null_arm"], {"rl": FIVE_WINS_ONE_LOSS, "sft": BASE})
    table = ablation_table(plan, runs)
    markdown = write_tables(plan, runs)
    assert pl.read_csv(runs / "table.csv", schema=TABLE_SCHEMA).equals(table)
    assert json.loads((runs / "table.json").read_text()) == table.to_dicts()
    assert (runs / "table.md").read_text() == markdown
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in markdown.splitlines() if row[:1] == "|"]
    assert cells[0] == [
        *("row", "system", "settings", "exact match", "minus base/rl", "p", "p (Holm)", "tasks", "rollouts"),
        "RL seconds",
    ]
    assert all(len(row) == 10 for row in cells)
    shown = {(row[0], row[1]): row for row in cells[2:]}
    assert list(shown) == table.select("row", "system").rows()
    base, null, unrun = shown["base", "rl"], shown["null_arm", "rl"], shown["one_step", "sft"]
    assert base[2] == "" and base[3].startswith("0.167 [") and base[4:7] == ["", "", ""]
    assert base[7:] == ["6", "1,200", "1,235"]
    assert null[2] == "`rl.arms=3 rl.interventions=['null']`"
    assert null[3].startswith("0.833 [") and null[4].startswith("+0.667 [+")
    assert null[5:7] == ["0.219", "0.656"], "three lines are compared"
    assert unrun[3:] == ["not run", *[""] * 6]
    assert "2 of 3 rows have finished. Commits: `0123456789`. Training seeds: 1." in markdown


def test_an_empty_folder_gives_a_table_of_rows_to_run(sweep, runs):
    plan = sweep()
    markdown = write_tables(plan, runs)
    assert markdown.count("not run") == 3
    assert "0 of 3 rows have finished. Commits: none yet. Training seeds: none yet." in markdown
    table = pl.read_csv(runs / "table.csv", schema=TABLE_SCHEMA)
    assert table["row"].to_list() == list(plan.rows)
    assert table["return"].null_count() == 3
