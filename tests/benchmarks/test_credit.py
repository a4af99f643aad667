"""The credit simulator: what it says where the answer is known."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest

from benchmarks.credit.episodes import read_arms
from benchmarks.credit.learners import Learner, collect, execution_gradient, routing_gradient
from benchmarks.credit.measures import Curves, gradients, learning_curves, rollouts_to_reach
from benchmarks.credit.memory import Memory
from benchmarks.credit.report import LEARNERS, QUICK, gradient_table
from benchmarks.credit.world import Knobs, make_world, table_world, values
from talentrl.errors import InputError

TABLE = replace(Knobs(), noise=0.0)


def one_step(learner, knobs=TABLE, seed=0):
    world = make_world(knobs, 3, seed)
    learner = learner.for_talents(world.talents)
    return world, learner, collect(world, world.router_WFK, learner, np.random.default_rng(seed))


def test_without_effects_every_talent_is_worth_the_same():
    knobs = Knobs(offset=0, talent_effect=0, skill_effect=0, execution_effect=0)
    assert np.allclose(values(make_world(knobs, 2, 0)), 0.5)


def test_the_initial_favourite_is_never_the_best_and_confounding_practises_it():
    world = make_world(Knobs(confounding=1.0), 20, 0)
    favourite = world.router_WFK.argmax(-1)
    assert (favourite != values(world, mastered=True).argmax(-1)).all()
    assert (favourite == world.practice_WNK.argmax(-1)).all()
    assert np.ptp(make_world(Knobs(), 20, 0).practice_WNK) == 0


@pytest.mark.parametrize("estimator", ["contrast_loo", "contrast_null", "terminal", "shared", "all_action"])
def test_unbiased_estimators_have_the_enumerated_gradient(estimator):
    found = gradients(make_world(TABLE, 4, 0), Learner(estimator, 8, 1), 2000, 0)
    assert found.cosine_W.min() > 0.97
    # `shared` and `terminal` compare with means that hold the rollout itself, which shrinks them.
    assert found.bias_W.max() < (0.25 if estimator in ("shared", "terminal") else 0.15)


def test_one_shared_routing_has_no_gradient():
    _, learner, step = one_step(Learner("shared", 1, 8))
    assert (routing_gradient(step, learner) == 0).all()


def test_one_rollout_an_arm_leaves_execution_untrained_within_the_arm():
    world, learner, step = one_step(Learner("contrast_loo", 8, 1))
    assert (execution_gradient(step, world, learner) == 0).all()
    assert (execution_gradient(step, world, replace(learner, shared_execution=True)) != 0).any()


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_spends_the_same_rollouts_a_step(name):
    _, _, step = one_step(LEARNERS[name])
    assert step.returns_WTAM[0].size == 64


def test_halving_spends_as_many_on_fewer_arms():
    _, _, step = one_step(Learner("contrast_distinct", 4, 2, choice="halving"))
    assert np.isfinite(step.returns_WTAM).sum((1, 2, 3)).tolist() == [64] * 3


def test_arms_are_distinct_or_hold_the_null_talent_where_they_should():
    _, _, distinct = one_step(Learner("contrast_distinct", 4, 2))
    assert (np.diff(np.sort(distinct.arms_WTA, -1), axis=-1) > 0).all()
    world, _, null = one_step(Learner("contrast_null", 4, 2))
    assert ((null.arms_WTA == world.talents).sum(-1) == 1).all()


def test_nearest_tasks_are_those_with_like_features():
    memory = Memory(1, 2, 1, 3, size=40)
    features = np.repeat(np.eye(2), 20, 0)[None]
    arms = np.repeat([0, 1], 20)[None, :, None]
    memory.add(features, arms, arms.astype(float))
    sums, counts = memory.nearest(np.eye(2)[None])
    assert counts.tolist() == [[[16, 0, 0], [0, 16, 0]]] and sums.tolist() == [[[0, 0, 0], [0, 16, 0]]]
    assert memory.mean_return(np.eye(2)[None]).tolist() == [[0, 1]]


def test_a_router_learns_a_table_and_equal_seeds_agree():
    table = np.tile([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], (10, 1))
    features = np.tile(np.eye(2), (10, 1))
    make = partial(table_world, table, features)
    first, second = (learning_curves(make, Learner("contrast_distinct", 2, 2), 2560, 4, 0) for _ in range(2))
    assert first.accuracy_WE[:, -1].mean() > 0.95 and first.value_WE[:, -1].mean() > 0.95
    assert (first.value_WE == second.value_WE).all()


def test_rollouts_to_reach_counts_from_where_it_stays():
    curve = np.array([[0.0, 0.9, 0.5, 0.9, 1.0]])
    curves = Curves(np.arange(5) * 64, curve, curve, curve, 1, 1)
    assert rollouts_to_reach(curves, 0.9).tolist() == [3 * 64]
    assert rollouts_to_reach(replace(curves, value_WE=curve / 2), 0.9).tolist() == [np.inf]


def test_tables_repeat():
    assert list(gradient_table(QUICK)) == list(gradient_table(QUICK))


def test_measured_arms_are_read_and_refused(tmp_path):
    rows = [("b", "B?", "x", 1.0), ("b", "B?", "y", 0.0), ("a", "A?", "y", 1.0), ("a", "A?", "x", 0.0)]
    frame = pl.DataFrame(rows, ["task_id", "instruction", "talent", "return"], orient="row")
    frame.write_parquet(tmp_path / "oracle.parquet")
    instructions, table = read_arms(tmp_path / "oracle.parquet")
    assert instructions == ["A?", "B?"] and table.tolist() == [[0, 1], [1, 0]]
    frame[:3].write_parquet(tmp_path / "partial.parquet")
    with pytest.raises(InputError, match="every task under every talent"):
        read_arms(tmp_path / "partial.parquet")


def test_the_command_reports_bad_episodes(tmp_path):
    command = [sys.executable, "-m", "benchmarks.credit", "--episodes", str(tmp_path / "none.parquet")]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert ended.returncode == 2 and "none.parquet" in ended.stderr and "Traceback" not in ended.stderr
