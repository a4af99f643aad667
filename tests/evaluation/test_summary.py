import json

import polars as pl
import pytest
from evaluation_samples import episode, frame
from polars.testing import assert_frame_equal

from talentrl.benchmarks.taskset import TASK_SCHEMA
from talentrl.errors import InputError
from talentrl.evaluation import arms, summary


def oracle_frame():
    """Four tasks, two talents: a is best for a and z, b is best for b, all arms of c are equal."""
    outcomes = {"a": (1, 0), "b": (0, 1), "c": (1, 1), "z": (1, 0)}
    return frame(
        [
            episode(task, talent, right, intervention="forced")
            for task, pair in outcomes.items()
            for talent, right in zip(("lookup", "bridge"), pair, strict=True)
        ]
    )


def systems():
    sft = [
        episode("a", "bridge", 0),
        episode("b", "bridge", 1),
        episode("c", "lookup", 1),
        episode("z", None, None),
    ]
    sft[3]["invalid_actions"] = 2
    rl = [episode(t, z, 1) for t, z in (("a", "lookup"), ("b", "bridge"), ("c", "bridge"))]
    rl.append(episode("z", "bridge", 0, f1=0.5))
    flat = [episode(task, None, 0, intervention="null") for task in "abcz"]
    return {"rl": frame(rl), "sft": frame(sft), "flat": frame(flat), "oracle": oracle_frame()}


@pytest.fixture
def rows():
    return {row["system"]: row for row in summary.comparison_table(systems()).iter_rows(named=True)}


def test_systems_come_in_reading_order(rows):
    assert list(rows) == ["flat", "sft", "rl", "majority", "oracle"]


def test_scores_are_means_over_tasks_and_a_failed_episode_scores_zero(rows):
    assert rows["sft"]["return"] == 0.5
    assert rows["sft"]["failed_episodes"] == 1
    assert rows["rl"]["f1"] == pytest.approx(3.5 / 4)
    assert rows["rl"]["return_low"] <= 0.75 <= rows["rl"]["return_high"]


def test_routing_accuracy_counts_only_tasks_that_have_a_best_arm(rows):
    assert rows["rl"]["routing_accuracy"] == pytest.approx(2 / 3)
    assert rows["sft"]["routing_accuracy"] == pytest.approx(1 / 3)
    assert (rows["rl"]["routing_tasks"], rows["rl"]["tied_tasks"]) == (3, 1)
    assert rows["flat"]["routing_accuracy"] is None


def test_rates(rows):
    assert rows["sft"]["routing_valid_rate"] == 0.75
    assert rows["sft"]["invalid_action_rate"] == 0.25
    assert rows["flat"]["routing_valid_rate"] is None


def test_oracle_scores_its_best_arm_and_costs_all_of_them(rows):
    assert rows["oracle"]["return"] == 1.0
    assert rows["oracle"]["sampled_tokens"] == 40.0
    assert rows["rl"]["sampled_tokens"] == 20.0


def test_majority_is_the_best_single_talent_and_says_hindsight(rows):
    assert rows["majority"]["return"] == 0.75
    assert rows["majority"]["label"] == "Majority talent: lookup (chosen in hindsight)"


def test_paired_differences_by_hand():
    table = summary.difference_table(systems())
    found = {(r["metric"], r["first"], r["second"]): r for r in table.iter_rows(named=True)}
    assert list(found) == [
        ("return", "rl", "sft"),
        ("return", "rl", "flat"),
        ("return", "rl", "majority"),
        ("return", "oracle", "rl"),
        ("routing_accuracy", "rl", "sft"),
    ]
    gain = found["return", "rl", "sft"]
    assert (gain["difference"], gain["tasks"], gain["p_value"]) == (0.25, 4, 1.0)
    assert found["routing_accuracy", "rl", "sft"]["tasks"] == 3


def test_metrics_hold_both_tables_and_no_list():
    """Lists would be left out by `dvc metrics diff`."""
    metrics = summary.summary_metrics(systems())
    gain = metrics["differences"]["return"]["rl-sft"]
    assert gain["difference"] == 0.25 and gain["low"] <= 0.25 <= gain["high"] and gain["tasks"] == 4
    assert metrics["systems"]["rl"]["return"] == summary.comparison_table(systems())["return"].to_list()[2]
    assert json.loads(json.dumps(metrics)) == metrics
    assert "[" not in json.dumps(metrics)


def test_seeds_are_averaged_within_a_task_before_pairing():
    one = [episode("a", "lookup", r, run_seed=s) for s, r in enumerate((1, 1, 0))]
    two = [episode("b", "lookup", r, run_seed=s) for s, r in enumerate((0, 0, 0))]
    sft = [episode(task, "lookup", 0) for task in "ab"]
    table = summary.difference_table({"rl": frame(one + two), "sft": frame(sft)})
    row = table.row(0, named=True)
    assert row["tasks"] == 2
    assert row["difference"] == pytest.approx(1 / 3)
    assert summary.comparison_table({"rl": frame(one + two)})["seeds"].to_list() == [3]


def test_oracle_and_routing_are_judged_within_each_seed():
    # Seed 0 is best under lookup, seed 1 under bridge: no single talent is best for both.
    arms_by_seed = [
        episode("a", talent, right, intervention="forced", run_seed=seed)
        for seed, pair in enumerate(((1, 0), (0, 1)))
        for talent, right in zip(("lookup", "bridge"), pair, strict=True)
    ]
    rl = [episode("a", "lookup", 1, run_seed=0), episode("a", "lookup", 0, run_seed=1)]
    table = summary.comparison_table({"rl": frame(rl), "oracle": frame(arms_by_seed)})
    values = {row["system"]: row for row in table.iter_rows(named=True)}
    assert values["oracle"]["return"] == 1.0
    assert values["rl"]["routing_accuracy"] == 0.5


def test_tables_do_not_depend_on_row_order():
    shuffled = {name: part.sample(fraction=1.0, shuffle=True, seed=1) for name, part in systems().items()}
    assert_frame_equal(summary.comparison_table(systems()), summary.comparison_table(shuffled))
    assert_frame_equal(summary.difference_table(systems()), summary.difference_table(shuffled))


def test_absent_systems_leave_rows_out():
    assert summary.difference_table({"rl": systems()["rl"]}).is_empty()
    table = summary.comparison_table({"rl": systems()["rl"]})
    assert table["routing_accuracy"].to_list() == [None]


def test_systems_on_different_tasks_are_refused():
    short = systems() | {"rl": systems()["rl"].head(3)}
    with pytest.raises(InputError, match="'rl' and 'sft' differ in tasks"):
        summary.difference_table(short)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda rl: rl.drop("f1"), "'rl': columns \\['f1'\\] are missing"),
        (lambda rl: rl.clear(), "'rl': found none"),
    ],
)
def test_broken_frames_are_refused(broken, message):
    with pytest.raises(InputError, match=message):
        summary.comparison_table({"rl": broken(systems()["rl"])})


def test_talent_use_counts_a_turn_without_talent_as_none():
    use = summary.talent_use(systems())
    assert use.filter(pl.col("system") == "sft").rows() == [
        ("sft", "bridge", 0.5),
        ("sft", "lookup", 0.25),
        ("sft", "none", 0.25),
    ]
    assert set(use["system"]) == {"sft", "rl"}


def task_frame(*rows: tuple[str, str, str]) -> pl.DataFrame:
    """Tasks by id, benchmark and payload."""
    full = [(id, benchmark, "test", "?", [], payload) for id, benchmark, payload in rows]
    return pl.DataFrame(full, schema=TASK_SCHEMA, orient="row")


def test_groups_come_from_the_payload():
    tasks = task_frame(
        ("a", "atlas", '{"family": "lookup", "held_out": true}'),
        ("b", "atlas", '{"family": "bridge"}'),
        ("c", "atlas", "{}"),
        ("z", "atlas", '{"family": "lookup"}'),
    )
    table = summary.group_table({"rl": systems()["rl"]}, tasks)
    assert table.select("group", "return", "tasks").rows() == [
        ("bridge", 1.0, 1),
        ("lookup", 0.5, 2),
        ("(phrasing held out)", 1.0, 1),
    ]
    assert summary.group_table(systems(), tasks.with_columns(payload=pl.lit("{}"))).is_empty()


def test_groups_of_several_benchmarks():
    tasks = task_frame(("a", "hotpotqa", '{"type": "bridge"}'), ("b", "hotpotqa", "{}"), ("z", "musique", "{}"))
    table = summary.group_table({"rl": systems()["rl"]}, tasks)
    assert table["group"].to_list() == ["hotpotqa", "hotpotqa: bridge", "musique"]


def test_a_game_has_a_return_but_no_f1():
    games = systems()["rl"].with_columns(f1=pl.lit(None, pl.Float64))
    row = summary.comparison_table({"rl": games}).to_dicts()[0]
    assert row["return"] == 0.75
    assert row["f1"] is None


@pytest.mark.parametrize(
    ("benchmark", "name"), [("musique", "exact match"), ("alfworld", "success"), ("webshop", "reward")]
)
def test_the_return_is_named_by_benchmark(benchmark, name):
    assert summary.return_name(task_frame(("a", benchmark, "{}"))) == name


def test_confusion_gives_each_task_one_vote():
    ready = summary.prepare(systems())
    table = arms.routing_confusion(ready["sft"], ready["oracle"])
    assert table.rows() == [("bridge", "bridge", 1.0), ("bridge", "lookup", 1.0), ("none", "lookup", 1.0)]


def test_confusion_shares_a_task_among_tied_best_arms():
    three = [episode("a", t, r, intervention="forced") for t, r in (("bridge", 1), ("count", 1), ("lookup", 0))]
    ready = summary.prepare({"oracle": frame(three), "rl": frame([episode("a", "count", 1)])})
    table = arms.routing_confusion(ready["rl"], ready["oracle"])
    assert table.rows() == [("count", "bridge", 0.5), ("count", "count", 0.5)]


def training(rows):
    return frame([episode(t, z, r, step=s, **more) for s, t, z, r, more in rows])


def test_contrast_by_hand():
    # Step 1: lookup 1, bridge 0, null 0. Step 2, same task: lookup 1 and 0 (mean 0.5), bridge 0.
    arms_run = training(
        [
            (1, "a", "lookup", 1, {}),
            (1, "a", "bridge", 0, {"intervention": "forced"}),
            (1, "a", None, 0, {"intervention": "null"}),
            (2, "a", "lookup", 1, {}),
            (2, "a", "lookup", 0, {}),
            (2, "a", "bridge", 0, {}),
            (3, "b", "lookup", 1, {}),
        ]
    )
    table = {row["arm"]: row for row in arms.contrast_by_talent(arms_run).iter_rows(named=True)}
    assert list(table) == ["lookup", "bridge", "null"]
    assert table["lookup"]["contrast"] == pytest.approx((1.0 + 0.5) / 2)
    assert table["bridge"]["contrast"] == pytest.approx((-0.5 - 0.5) / 2)
    assert table["null"]["contrast"] == pytest.approx(-0.5)
    assert {row["tasks"] for row in table.values()} == {1}  # task b ran one arm, which has no contrast
    assert (table["lookup"]["better"], table["lookup"]["worse"]) == (1.0, 0.0)


def test_equal_arms_have_zero_contrast():
    same = training([(1, t, z, 1, {}) for t in "ab" for z in ("lookup", "bridge")])
    table = arms.contrast_by_talent(same)
    assert table["contrast"].to_list() == [0.0, 0.0]
    assert table["better"].to_list() == table["worse"].to_list() == [0.0, 0.0]


def test_talent_use_over_steps_averages_the_policy_probability_over_tasks():
    rows = [
        (1, "a", "lookup", 1, {"routing_probability": 0.8}),
        (1, "a", "bridge", 0, {"routing_probability": 0.1}),
    ]
    rows += [(1, "b", "lookup", 1, {"routing_probability": 0.4})] * 2  # two rollouts of one arm count once
    assert arms.talent_use_by_step(training(rows)).rows() == [
        ("1", "bridge", pytest.approx(0.05)),
        ("1", "lookup", pytest.approx(0.6)),
    ]


def test_talent_use_over_steps_is_binned_and_may_be_unknown():
    rows = [(step, "a", "lookup", 1, {}) for step in range(30)]
    use = arms.talent_use_by_step(training(rows))
    assert use.height == 12
    assert use["steps"][0] == "0–2"
    unknown = training(rows).with_columns(routing_probability=pl.lit(None, pl.Float64))
    assert arms.talent_use_by_step(unknown).is_empty()
