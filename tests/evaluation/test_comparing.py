import polars as pl
import pytest

from talentrl.errors import InputError
from talentrl.evaluation.comparing import Side, compare_episodes, compare_runs


def episodes(values: dict[str, float | None], data: str = "", f1: float | None = 0.5) -> pl.DataFrame:
    rows = [
        {"task_id": task, "instruction": f"Question of {task}?{data}", "return": value, "f1": f1}
        for task, value in values.items()
    ]
    return pl.DataFrame(rows, schema={"task_id": str, "instruction": str, "return": float, "f1": float})


HALF = {f"t{i}": float(i % 2) for i in range(20)}
ALL = dict.fromkeys(HALF, 1.0)


def test_the_difference_is_second_minus_first_paired_by_task() -> None:
    result = compare_episodes(episodes(HALF), episodes(ALL))
    assert (result.first, result.second, result.note) == (0.5, 1.0, "")
    difference = result.comparison.difference
    assert difference.value == 0.5 and 0 < difference.low < 0.5 < difference.high and difference.n == 20
    assert result.comparison.p_value == 2 * 0.5**10, "ten discordant pairs, all one way"
    back = compare_episodes(episodes(ALL), episodes(HALF)).comparison.difference
    assert back.value == -0.5 and back.high < 0


def test_only_shared_tasks_count_and_it_says_so() -> None:
    result = compare_episodes(episodes(HALF), episodes({task: ALL[task] for task in ("t0", "t1", "t2", "t3")}))
    assert result.comparison.difference.n == 4 and result.note == "of 20 and 4 tasks"
    assert (result.first, result.second) == (0.5, 1.0)


def test_tasks_of_other_data_with_the_same_ids_are_not_paired() -> None:
    with pytest.raises(InputError, match=r"share no task \(20 tasks and 20\)"):
        compare_episodes(episodes(HALF), episodes(ALL, data=" (another seed)"))


def test_seeds_are_averaged_within_a_task_and_a_failed_rollout_counts_as_0() -> None:
    two_seeds = pl.concat([episodes({"a": 1.0, "b": 1.0}), episodes({"a": 0.0, "b": None})])
    result = compare_episodes(episodes({"a": 0.0, "b": 0.0}), two_seeds)
    assert result.second == 0.5 and result.comparison.difference.n == 2


def test_runs_with_episodes_have_intervals_and_others_a_mark() -> None:
    first = Side({"loss": 2.0, "only": 1.0, "evaluate/rl/return": 0.5}, {"rl": episodes(HALF), "flat": episodes(HALF)})
    second = Side({"loss": 1.5, "evaluate/rl/return": 1.0}, {"rl": episodes(ALL)})
    rows = {row["metric"]: row for row in compare_runs(first, second).to_dicts()}
    assert set(rows) == {"evaluate/rl/return", "evaluate/rl/f1", "loss"}
    assert rows["evaluate/rl/return"]["difference"] == 0.5 and rows["evaluate/rl/return"]["low"] > 0
    assert rows["evaluate/rl/f1"]["difference"] == 0.0 and rows["evaluate/rl/f1"]["tasks"] == 20
    assert rows["loss"]["difference"] == -0.5 and rows["loss"]["note"] == "no episodes"
    assert rows["loss"]["low"] is None and rows["loss"]["p_value"] is None


def test_a_metric_that_the_benchmark_has_not_is_left_out() -> None:
    side = Side({}, {"rl": episodes(HALF, f1=None)})
    assert compare_runs(side, side)["metric"].to_list() == ["evaluate/rl/return"]


def test_episodes_of_other_tasks_are_a_row_without_figures() -> None:
    table = compare_runs(Side({}, {"rl": episodes(HALF)}), Side({}, {"rl": episodes(ALL, data="!")}))
    assert table["note"].to_list() == ["no task in common"] * 2 and table["difference"].null_count() == 2
