"""The figures a benchmark is judged by."""

import polars as pl
import pytest

from talentrl.evaluation.scores import SCORE_SCHEMA, score_table


def episodes(benchmark, rows):
    columns = ("task_id", "task_type", "return", "success", "exact_match", "f1")
    frame = pl.DataFrame([dict(zip(columns, row, strict=True)) for row in rows], infer_schema_length=None)
    return frame.with_columns(
        pl.col("success", "exact_match", "f1").cast(pl.Float64), benchmark=pl.lit(benchmark), run_seed=0
    )


def figures(table):
    return {(row["group"], row["metric"]): row["value"] for row in table.iter_rows(named=True)}


def test_alfworld_has_success_in_all_and_by_type_and_a_failed_rollout_counts_as_lost():
    rows = [
        ("a", "heat", 1.0, 1.0, None, None),
        ("b", "heat", None, None, None, None),
        ("c", "pair", 1.0, 1.0, None, None),
    ]
    table = score_table({"rl": episodes("alfworld", rows)})
    assert table.schema == SCORE_SCHEMA
    assert figures(table) == {
        ("all", "success"): pytest.approx(2 / 3),
        ("heat", "success"): 0.5,
        ("pair", "success"): 1.0,
    }
    assert table["failed"].to_list() == [1, 1, 0]
    assert table["tasks"].to_list() == [3, 2, 1]


def test_webshop_has_a_score_of_a_hundred_and_the_share_of_full_rewards():
    rows = [("a", None, 0.5, 0.0, None, None), ("b", None, 1.0, 1.0, None, None), ("c", None, 0.0, 0.0, None, None)]
    table = score_table({"flat": episodes("webshop", rows)})
    assert figures(table) == {("all", "score"): pytest.approx(50), ("all", "success"): pytest.approx(1 / 3)}
    score = table.row(by_predicate=pl.col("metric") == "score", named=True)
    assert 0 <= score["low"] < 50 < score["high"] <= 100


def test_questions_have_exact_match_and_f1():
    rows = [("a", "bridge", 1.0, None, 1.0, 1.0), ("b", "bridge", 0.0, None, 0.0, 0.5)]
    assert figures(score_table({"sft": episodes("hotpotqa", rows)})) == {
        ("all", "exact_match"): 0.5,
        ("all", "f1"): 0.75,
    }
