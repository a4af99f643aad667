"""The simulated world: kinds of task, talents, skills, and an executor that is itself learning.

A rollout of a task of kind n with talent k succeeds with probability

    sigmoid(offset + difficulty of the task + talent effect [n, k] + skill effect · (fits − ½)
            + execution effect · (well executed − ½))

The difficulty is not observed. Whether the retrieved skill fits is drawn once a (task, talent), so it is part of the
talent context. Executing well is a choice of the executor, with log-odds that REINFORCE moves, one a (kind, talent):
practice makes perfect, for the talents that are practised.

Axes: W worlds (one a seed, or one a seed and learning rate), N kinds, K talents and, in the last column of a table, the
null talent; T tasks a step, A arms a task, M rollouts an arm, F features.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit

_NODES, _WEIGHTS = hermegauss(11)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_UNPRACTISED, _PRACTISED = -0.5, 2.0


@dataclass(frozen=True)
class Knobs:
    """What the world is like; effects are in log-odds."""

    kinds: int = 6
    talents: int = 8
    offset: float = -0.5
    difficulty: float = 1.0
    """Standard deviation between tasks of a kind."""
    talent_effect: float = 1.0
    """Standard deviation between talents, for a kind of task."""
    skill_effect: float = 1.0
    prior_weight: float = 2.0
    """How much more often a skill fits under a talent with strong associations (log-odds of fitting)."""
    execution_effect: float = 3.0
    execution_rate: float = 0.05
    """Learning rate of the executor (Adam); 0: it does not learn."""
    confounding: float = 0.0
    """How far the talent that the initial router favours is practised beyond the others: 0 not, 1 from 38 to 88 %."""
    confidence: float = 1.5
    """Log-odds by which the initial router favours one talent of each kind, which is never the best."""
    noise: float = 0.3
    """Standard deviation of a task's features around those of its kind, which are one-hot."""


@dataclass(frozen=True)
class World:
    """The tables of W worlds. Only `practice_WNK` changes while a router learns."""

    knobs: Knobs
    talent_WNK: np.ndarray
    fit_WNK: np.ndarray
    """Probability that the retrieved skill fits."""
    practice_WNK: np.ndarray
    """Log-odds of executing well."""
    router_WFK: np.ndarray
    """Initial weights of the router; no column for the null talent."""
    centres_WNF: np.ndarray
    train_WJ: np.ndarray
    """Kinds of the training tasks."""
    test_WJ: np.ndarray
    """Kinds of the test tasks."""

    @property
    def talents(self) -> int:
        """Number of talents, without the null talent."""
        return self.router_WFK.shape[-1]


def make_world(knobs: Knobs, worlds: int, seed: int) -> World:
    """Draw `worlds` independent worlds."""
    draw = np.random.default_rng([seed, 1])
    shape = (worlds, knobs.kinds, knobs.talents + 1)
    talent = draw.normal(0, knobs.talent_effect, shape)
    talent[..., -1] = 0.0
    association = draw.random(shape)
    association[..., -1] = 0.0
    fit = expit(knobs.prior_weight * association - 1)
    kinds = np.broadcast_to(np.arange(knobs.kinds), shape[:2]).copy()
    world = World(knobs, talent, fit, np.full(shape, _UNPRACTISED), *_features(knobs, worlds), kinds, kinds)
    best = values(world, mastered=True).argmax(-1)
    favourite = (best + draw.integers(1, knobs.talents, best.shape)) % knobs.talents
    practice = _UNPRACTISED + knobs.confounding * (_PRACTISED - _UNPRACTISED)
    np.put_along_axis(world.practice_WNK, favourite[..., None], practice, -1)
    np.put_along_axis(world.router_WFK, favourite[..., None], knobs.confidence, -1)
    return world


def table_world(table_NK: np.ndarray, features_NF: np.ndarray, worlds: int, seed: int, held_out: float = 0.3) -> World:
    """Worlds from measured returns: each task is a kind of its own, execution is fixed, the router starts uniform.

    Worlds differ in which share `held_out` of the tasks is for testing.
    """
    tasks, talents = table_NK.shape
    draw = np.random.default_rng([seed, 1])
    order = np.stack([draw.permutation(tasks) for _ in range(worlds)])
    test = max(1, round(tasks * held_out))
    chances = np.clip(np.concatenate([table_NK, table_NK.mean(1, keepdims=True)], 1), 1e-9, 1 - 1e-9)
    tables = np.broadcast_to(np.log(chances / (1 - chances)), (worlds, tasks, talents + 1))
    knobs = Knobs(tasks, talents, 0, 0, 0, 0, 0, 0, execution_rate=0, confidence=0, noise=0)
    router = np.zeros((worlds, features_NF.shape[1], talents))
    centres = np.broadcast_to(features_NF, (worlds, *features_NF.shape))
    flat = np.zeros(tables.shape)
    return World(knobs, tables, flat, flat.copy(), router, centres, order[:, test:], order[:, :test])


def values(world: World, mastered: bool = False) -> np.ndarray:
    """Expected success of each kind under each talent (W, N, K), executed as now, or `mastered`: always well."""
    knobs = world.knobs
    well = np.ones_like(world.practice_WNK) if mastered else expit(world.practice_WNK)
    total = np.zeros_like(well)
    for executed, chance in ((1, well), (0, 1 - well)):
        for fits, share in ((1, world.fit_WNK), (0, 1 - world.fit_WNK)):
            effect = knobs.skill_effect * (fits - 0.5) + knobs.execution_effect * (executed - 0.5)
            odds = knobs.offset + world.talent_WNK + effect
            success = sum(
                weight * expit(odds + knobs.difficulty * node) for node, weight in zip(_NODES, _WEIGHTS, strict=True)
            )
            total += chance * share * success
    return total[..., :-1]


def sample_tasks(world: World, tasks: int, draw: np.random.Generator, split: str = "train") -> tuple[np.ndarray, ...]:
    """Kinds (W, T), features (W, T, F) and difficulties (W, T) of tasks."""
    kinds_WJ = world.train_WJ if split == "train" else world.test_WJ
    worlds = len(kinds_WJ)
    rows = np.arange(worlds)[:, None]
    kinds = kinds_WJ[rows, draw.integers(0, kinds_WJ.shape[1], (worlds, tasks))]
    centres = world.centres_WNF[rows, kinds]
    features = centres + world.knobs.noise * draw.normal(size=centres.shape) if world.knobs.noise else centres
    return kinds, features, world.knobs.difficulty * draw.normal(size=kinds.shape)


def play(
    world: World, kinds_WT: np.ndarray, difficulty_WT: np.ndarray, arms_WTA: np.ndarray, fits_WTK: np.ndarray,
    rollouts: int, draw: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Returns (W, T, A, M) in {0, 1}, and whether each rollout was well executed."""
    knobs = world.knobs
    rows, kinds = np.arange(len(kinds_WT))[:, None, None], kinds_WT[..., None]
    fits = np.take_along_axis(fits_WTK, arms_WTA, -1)
    odds = knobs.offset + difficulty_WT[..., None] + world.talent_WNK[rows, kinds, arms_WTA]
    odds = (odds + knobs.skill_effect * (fits - 0.5))[..., None]
    shape = (*arms_WTA.shape, rollouts)
    executed = draw.random(shape) < expit(world.practice_WNK[rows, kinds, arms_WTA])[..., None]
    returns = draw.random(shape) < expit(odds + knobs.execution_effect * (executed - 0.5))
    return returns.astype(float), executed.astype(float)


def draw_fits(world: World, kinds_WT: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Whether the skill that each talent would retrieve for each task fits it (W, T, K)."""
    chances = world.fit_WNK[np.arange(len(kinds_WT))[:, None], kinds_WT]
    return (draw.random(chances.shape) < chances).astype(float)


def repeated(world: World, times: int) -> World:
    """Each world `times` times, one after the other."""
    names = ("talent_WNK", "fit_WNK", "practice_WNK", "router_WFK", "centres_WNF", "train_WJ", "test_WJ")
    tables: dict[str, Any] = {name: np.repeat(getattr(world, name), times, 0) for name in names}
    return replace(world, **tables)


def _features(knobs: Knobs, worlds: int) -> tuple[np.ndarray, np.ndarray]:
    centres = np.broadcast_to(np.eye(knobs.kinds), (worlds, knobs.kinds, knobs.kinds))
    return np.zeros((worlds, knobs.kinds, knobs.talents)), centres
