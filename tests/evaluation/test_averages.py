"""Macro and micro averages over benchmarks, with counts and intervals."""

import math

import numpy as np
import polars as pl
import pytest

from talentrl.errors import InputError
from talentrl.evaluation.averages import average_table, macro_interval
from talentrl.evaluation.statistics import mean_interval


def episodes(**values_by_benchmark):
    rows = [
        (benchmark, f"test_{place}", value)
        for benchmark, values in values_by_benchmark.items()
        for place, value in enumerate(values)
    ]
    schema = {"benchmark": pl.String, "task_id": pl.String, "exact_match": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def row(table, name):
    return table.row(by_predicate=pl.col("benchmark") == name, named=True)


def test_macro_counts_benchmarks_alike_and_micro_tasks():
    table = average_table(episodes(nq=[1, 1, 0, 0], bamboogle=[1, 0] * 10 + [0, 0] * 10))
    assert table["benchmark"].to_list() == ["bamboogle", "nq", "macro", "micro"]
    assert table["value"].to_list() == [0.25, 0.5, 0.375, 12 / 44]
    assert table["tasks"].to_list() == [40, 4, 44, 44]
    assert all(low < value < high for value, low, high in table.select("value", "low", "high").rows())


def test_tasks_of_two_benchmarks_may_have_one_id_and_rollouts_are_averaged_first():
    frame = pl.concat([episodes(nq=[1.0, 0.0], popqa=[0.0, 0.0]), episodes(nq=[0.0, 0.0], popqa=[None, 1.0])])
    table = average_table(frame)
    assert (row(table, "nq")["value"], row(table, "popqa")["value"]) == (0.25, 0.25)
    assert row(table, "micro")["tasks"] == 4


def test_one_benchmark_is_its_own_average():
    table = average_table(episodes(nq=[1, 0, 0, 1, 1]))
    assert row(table, "macro")["value"] == row(table, "micro")["value"] == row(table, "nq")["value"] == 0.6
    assert row(table, "micro")["low"] == row(table, "nq")["low"]


def test_the_macro_interval_of_one_sample_is_the_bootstrap_interval_of_its_mean():
    sample = np.array([0.0, 1.0, 0.5, 1.0, 0.0, 0.25] * 20)
    ours, usual = macro_interval([sample], seed=3), mean_interval(sample, seed=4)
    assert ours.value == usual.value
    assert (ours.low, ours.high) == pytest.approx((usual.low, usual.high), abs=0.01)


def test_the_macro_interval_has_the_width_of_independent_means():
    # The variance of a mean of k independent means is the mean of their variances over k.
    random = np.random.default_rng(0)
    samples = [(random.random(n) < 0.3).astype(float) for n in (100, 400, 900)]
    deviation = math.sqrt(sum(sample.var() / sample.size for sample in samples)) / len(samples)
    found = macro_interval(samples)
    assert found.high - found.low == pytest.approx(2 * 1.96 * deviation, rel=0.05)
    assert found.n == 1400


def test_equal_input_and_seed_give_equal_results():
    frame = episodes(nq=[1, 0, 0.5], popqa=[0, 1, 0])
    assert average_table(frame, seed=1).equals(average_table(frame.sample(fraction=1, shuffle=True, seed=5), seed=1))


def test_one_task_gives_no_interval():
    table = average_table(episodes(nq=[1.0], popqa=[0.0, 1.0]))
    assert math.isnan(row(table, "nq")["low"]) and math.isnan(row(table, "macro")["high"])
    assert row(table, "macro")["value"] == 0.75


def test_other_metrics_and_bad_frames():
    frame = episodes(nq=[1.0, 0.0]).rename({"exact_match": "f1"})
    assert row(average_table(frame, "f1"), "nq")["value"] == 0.5
    with pytest.raises(InputError, match=r"columns \['exact_match'\] are missing"):
        average_table(frame)
    with pytest.raises(InputError, match="found none"):
        average_table(frame.clear(), "f1")


def test_a_macro_average_of_equal_outcomes_claims_no_certainty():
    assert macro_interval([np.zeros(4), np.zeros(6)]) == mean_interval(np.zeros(10))
