"""What is measured: bias and noise of the gradients with fixed policies, and curves of learning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from benchmarks.credit.learners import (
    STEP_ROLLOUTS,
    Adam,
    Learner,
    Step,
    collect,
    execution_gradient,
    mean_returns,
    needs_memory,
    replayed,
    routing_gradient,
)
from benchmarks.credit.memory import Memory
from benchmarks.credit.world import World, repeated, sample_tasks, values

RATES = (0.1, 0.3, 1.0)
"""Learning rates of the router that every learner may choose from."""
TEMPERATURES = (1.0, 2.0, 4.0)
"""Routing temperatures that it may choose from."""
_EVALUATIONS = 50
_TEST_TASKS = 128


@dataclass(frozen=True)
class Gradients:
    """By world: ‖E ĝ − g‖ / ‖g‖ and cosine of E ĝ and g; signal-to-noise of routing and of execution, for one step."""

    bias_W: np.ndarray
    cosine_W: np.ndarray
    routing_W: np.ndarray
    execution_W: np.ndarray


@dataclass(frozen=True)
class Curves:
    """By world and point in training: routing value and accuracy, and success as executed then, of greedy routing."""

    rollouts_E: np.ndarray
    value_WE: np.ndarray
    accuracy_WE: np.ndarray
    success_WE: np.ndarray
    rate: float
    temperature: float


def gradients(world: World, learner: Learner, batches: int, seed: int) -> Gradients:
    """Compare the estimated gradient of one step, as a table over kinds, with the enumerated one.

    The features must be without noise, so that kinds and features are the same.
    """
    learner = learner.for_talents(world.talents)
    worlds, parts = len(world.router_WFK), 20
    many, draw = repeated(world, batches // parts), np.random.default_rng([seed, 2])
    routing, execution = [], []
    for _ in range(parts):
        step = collect(many, many.router_WFK, learner, draw)
        by_kind = np.einsum("wtf,wtk->wfk", step.features_WTF, routing_gradient(step, learner)) / step.kinds_WT.shape[1]
        routing.append(by_kind.reshape(worlds, batches // parts, -1))
        execution.append(execution_gradient(step, many, learner).reshape(worlds, batches // parts, -1))
    mean, variance = _moments(np.concatenate(routing, 1))
    policy, value = softmax(world.router_WFK, axis=-1), values(world)
    true = policy * (value - (policy * value).sum(-1, keepdims=True)) / value.shape[1]
    true = true.reshape(worlds, -1)
    norm = np.linalg.norm(true, axis=-1)
    # The square of the sampling error of the mean is known, so it is taken off.
    bias = np.sqrt(np.maximum(((mean - true) ** 2).sum(-1) - variance / batches, 0)) / norm
    signal = np.sqrt(np.maximum((mean**2).sum(-1) - variance / batches, 0))
    along = (mean * true).sum(-1) / norm
    cosine = np.where(signal > 1e-3 * norm, along / np.maximum(signal, 1e-12), np.nan)
    execution_mean, execution_variance = _moments(np.concatenate(execution, 1))
    execution_signal = np.sqrt(np.maximum((execution_mean**2).sum(-1) - execution_variance / batches, 0))
    return Gradients(bias, cosine, _ratio(along, variance), _ratio(execution_signal, execution_variance))


def learning_curves(
    make: Callable[[int, int], World], learner: Learner, rollouts: int, worlds: int, seed: int,
    temperatures: Sequence[float] = TEMPERATURES,
) -> Curves:  # fmt: skip
    """Train in `worlds` worlds, with the learning rate and temperature that did best in half as many others.

    Best is the highest mean of routing value and success over the whole run. `make` draws worlds from (number, seed).
    """
    grid = [(rate, temperature) for rate in RATES for temperature in temperatures]
    others = make(max(1, worlds // 2), seed + 1000)
    count = len(others.router_WFK)
    rates, warmth = (np.tile(column, count)[:, None, None] for column in np.array(grid).T)
    trial = _train(repeated(others, len(grid)), replace(learner, temperature=warmth), rollouts, rates, seed + 1)
    scores = (trial.value_WE + trial.success_WE).mean(-1).reshape(count, len(grid)).mean(0)
    rate, temperature = grid[int(scores.argmax())]
    best = replace(learner, temperature=temperature)
    return replace(_train(make(worlds, seed), best, rollouts, rate, seed), rate=rate, temperature=temperature)


def rollouts_to_reach(curves: Curves, share: float, resamples: int = 0, seed: int = 0) -> np.ndarray:
    """Rollouts after which the mean routing value stays at or above `share`; infinite if never.

    One figure, or one a bootstrap resample of the worlds (the same worlds for equal seeds).
    """
    worlds = len(curves.value_WE)
    draw = np.random.default_rng(seed)
    picks = draw.integers(0, worlds, (resamples, worlds)) if resamples else np.arange(worlds)[None]
    means = curves.value_WE[picks].mean(1)
    below = np.concatenate([np.ones((len(means), 1), bool), means < share], 1)
    last = below.shape[1] - 1 - below[:, ::-1].argmax(1)
    reached = np.append(curves.rollouts_E, np.inf)
    return reached[last]


def _train(world: World, learner: Learner, rollouts: int, rates: float | np.ndarray, seed: int) -> Curves:
    world = replace(world, practice_WNK=world.practice_WNK.copy())
    learner = learner.for_talents(world.talents)
    worlds, features, talents = world.router_WFK.shape
    router, draw = world.router_WFK.copy(), np.random.default_rng([seed, 3])
    adam, practice = Adam(rates, router.shape), Adam(world.knobs.execution_rate, world.practice_WNK.shape)
    memory = Memory(worlds, features, learner.arms, talents) if needs_memory(learner) else None
    test_kinds, test_features, _ = sample_tasks(world, _TEST_TASKS, np.random.default_rng([seed, 4]), "test")
    truth = values(world, mastered=True)
    per_step = max(1, STEP_ROLLOUTS // learner.cost) * learner.cost
    steps = rollouts // per_step
    points = np.unique(np.linspace(0, steps, _EVALUATIONS + 1).astype(int))
    results = []
    for number in range(steps + 1):
        if number in points:
            results.append(_evaluate(world, router, truth, test_kinds, test_features))
        step = collect(world, router, learner, draw, memory)
        router = router + adam.step(_weights_gradient(step, learner, memory))
        world.practice_WNK[...] += practice.step(execution_gradient(step, world, learner))
        if memory is not None:
            memory.add(step.features_WTF, step.arms_WTA, mean_returns(step.returns_WTAM))
            for _ in range(learner.replay):
                past = replayed(router, memory, learner, step.kinds_WT.shape[1], draw)
                router = router + adam.step(_weights_gradient(past, replace(learner, pooling=0), None))
    value, accuracy, success = (np.stack(measure, -1) for measure in zip(*results, strict=True))
    return Curves(points * per_step, value, accuracy, success, np.nan, np.nan)


def _weights_gradient(step: Step, learner: Learner, memory: Memory | None) -> np.ndarray:
    logits = routing_gradient(step, learner, memory)
    return np.einsum("wtf,wtk->wfk", step.features_WTF, logits) / logits.shape[1]


def _evaluate(
    world: World, router_WFK: np.ndarray, truth_WNK: np.ndarray, kinds_WT: np.ndarray, features_WTF: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Routing value (0: as a random talent, 1: as the best one), share of best choices, success as executed now."""
    rows = np.arange(len(kinds_WT))[:, None]
    chosen = (features_WTF @ router_WFK).argmax(-1)
    true = truth_WNK[rows, kinds_WT]
    got = np.take_along_axis(true, chosen[..., None], -1)[..., 0]
    best, random = true.max(-1), true.mean(-1)
    value = (got - random).sum(-1) / (best - random).sum(-1)
    success = np.take_along_axis(values(world)[rows, kinds_WT], chosen[..., None], -1)[..., 0]
    return value, (got >= best - 1e-9).mean(-1), success.mean(-1)


def _moments(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean (W, dimensions) and total variance (W,) over axis 1."""
    return samples.mean(1), samples.var(1, ddof=1).sum(-1)


def _ratio(signal: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return np.where(variance > 0, signal / np.sqrt(np.maximum(variance, 1e-30)), 0.0)
