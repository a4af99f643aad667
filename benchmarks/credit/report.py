"""The tables: each function runs one experiment and yields Markdown."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.credit.learners import Learner
from benchmarks.credit.measures import TEMPERATURES, Curves, gradients, learning_curves, rollouts_to_reach
from benchmarks.credit.world import Knobs, World, make_world

PLAIN, CONFOUNDED = Knobs(), Knobs(confounding=1.0)
DECIDED = Knobs(confidence=float(np.log(0.95 / 0.05 * 7)))
"""The router favours one of 8 talents, never the best, with a probability of .95."""
REFERENCE = "shared 8×1"
LEARNERS = {
    "contrast_distinct 4×2": Learner("contrast_distinct", 4, 2),
    "contrast_loo 4×2": Learner("contrast_loo", 4, 2),
    "contrast_null (3 + null)×2": Learner("contrast_null", 4, 2),
    "all_action 8×1": Learner("all_action", 8, 1),
    "all_action 8×2": Learner("all_action", 8, 2),
    "terminal 4×2": Learner("terminal", 4, 2),
    "terminal 8×1": Learner("terminal", 8, 1),
    REFERENCE: Learner("shared", 8, 1),
    "shared 4×2": Learner("shared", 4, 2),
    "shared 1×8 (one routing)": Learner("shared", 1, 8),
}
DEFAULT = LEARNERS["contrast_distinct 4×2"]
CHOSEN = ("contrast_distinct 4×2", "contrast_loo 4×2", "terminal 4×2", REFERENCE)
BEYOND: dict[str, dict[str, Any]] = {
    "default": {},
    "UCB draw of arms": {"choice": "ucb", "bonus": 0.2},
    "Thompson draw of arms": {"choice": "thompson"},
    "successive halving": {"choice": "halving"},
    "pooled with similar tasks, weight 2": {"pooling": 2.0},
    "pooled with similar tasks, weight 8": {"pooling": 8.0},
    "batch scale": {"scale": True},
    "shrinkage κ = 2": {"shrinkage": 2.0},
    "replay × 1": {"replay": 1},
    "replay × 4": {"replay": 4},
    "execution relative to the task": {"shared_execution": True},
    "Thompson, execution relative to the task": {"choice": "thompson", "shared_execution": True},
    "UCB, execution relative to the task": {"choice": "ucb", "bonus": 0.2, "shared_execution": True},
    "UCB, replay × 1, execution relative to the task": {
        "choice": "ucb",
        "bonus": 0.2,
        "replay": 1,
        "shared_execution": True,
    },
}


@dataclass(frozen=True)
class Size:
    """How much is run."""

    worlds: int = 24
    rollouts: int = 19_200
    batches: int = 2_000
    seed: int = 0


QUICK = Size(worlds=4, rollouts=640, batches=40)


def gradient_table(size: Size) -> Iterator[str]:
    """Bias and signal-to-noise with fixed policies, for the initial router and for a decided one."""
    columns = ["router", "estimator", "bias", "cosine", "signal-to-noise, routing", "signal-to-noise, execution"]
    yield _header(columns)
    for router, knobs in (("initial", PLAIN), ("decided, .95", DECIDED)):
        world = make_world(replace(knobs, noise=0.0), size.worlds, size.seed)
        tempered = {f"{name}, τ = 4": replace(LEARNERS[name], temperature=4.0) for name in CHOSEN[:2]}
        for name, learner in (LEARNERS | tempered).items():
            found = gradients(world, learner, size.batches, size.seed)
            measured = (found.bias_W, found.cosine_W, found.routing_W, found.execution_W)
            yield _row([router, name, *map(interval, measured)])


def learning_table(learned: Mapping[str, Curves]) -> Iterator[str]:
    """What each learner reached, and the rollouts that it took, as a ratio to `shared 8×1` too."""
    columns = ["estimator", "rate, τ", "routing value at 10 %", "value at the end", "best talent at the end",
               "success, mean over the run", "success at the end", "rollouts to 80 %", "ratio to shared 8×1",
               "rollouts to 90 %"]  # fmt: skip
    yield _header(columns)
    for name, curves in learned.items():
        tenth = curves.value_WE.shape[1] // 10
        measured = (curves.value_WE[:, tenth], curves.value_WE[:, -1], curves.accuracy_WE[:, -1],
                    curves.success_WE.mean(1), curves.success_WE[:, -1])  # fmt: skip
        yield _row([
            name, f"{curves.rate:g}, {curves.temperature:g}", *map(interval, measured), reach(curves, 0.8),
            ratio(curves, learned[REFERENCE], 0.8) if REFERENCE in learned else "–", reach(curves, 0.9),
        ])  # fmt: skip


def learn(knobs: Knobs, learners: Mapping[str, Learner], size: Size) -> dict[str, Curves]:
    """Curves of each learner in worlds of `knobs`."""
    return {
        name: train(lambda n, seed: make_world(knobs, n, seed), learner, size) for name, learner in learners.items()
    }


def train(make: Callable[[int, int], World], learner: Learner, size: Size) -> Curves:
    """Curves of one learner."""
    return learning_curves(make, learner, size.rollouts, size.worlds, size.seed)


def split_table(size: Size) -> Iterator[str]:
    """Arms × rollouts at 8 and 16 rollouts a task, confounded."""
    columns = ["arms × rollouts"] + [f"{name}, {measure}" for name in ("contrast_distinct", "contrast_loo", "shared")
                                     for measure in ("routing value", "success")]  # fmt: skip
    yield _header(columns)
    for arms, rollouts in ((2, 4), (4, 2), (8, 1), (2, 8), (4, 4), (8, 2)):
        cells = [f"{arms}×{rollouts}"]
        for estimator in ("contrast_distinct", "contrast_loo", "shared"):
            curves = train(lambda n, s: make_world(CONFOUNDED, n, s), Learner(estimator, arms, rollouts), size)
            cells += [interval(curves.value_WE.mean(1)), interval(curves.success_WE.mean(1))]
        yield _row(cells)


def knob_table(name: str, knobs: Mapping[str, Knobs], size: Size) -> Iterator[str]:
    """Mean routing value and success over the run, by one knob of the world."""
    yield _header([name, *(f"{learner}, {m}" for learner in CHOSEN for m in ("routing value", "success"))])
    for label, world in knobs.items():
        learned = learn(world, {learner: LEARNERS[learner] for learner in CHOSEN}, size)
        cells = [interval(m.mean(1)) for curves in learned.values() for m in (curves.value_WE, curves.success_WE)]
        yield _row([label, *cells])


def decided_table(size: Size) -> Iterator[str]:
    """Learning that starts from a router that is sure and wrong, at each routing temperature."""
    yield _header(["estimator", "τ", "routing value at 10 %", "value, mean over the run", "success, mean over the run"])
    for name in CHOSEN:
        for temperature in TEMPERATURES:
            make = partial(make_world, DECIDED)
            curves = learning_curves(
                make, LEARNERS[name], size.rollouts, size.worlds, size.seed, temperatures=(temperature,)
            )
            tenth = curves.value_WE[:, curves.value_WE.shape[1] // 10]
            measured = (tenth, curves.value_WE.mean(1), curves.success_WE.mean(1))
            yield _row([name, f"{temperature:g}", *map(interval, measured)])


def beyond_table(size: Size) -> Iterator[str]:
    """What is tried on top of the default, paired by world: differences in mean routing value and success."""
    columns = ["default and …", "routing value at 10 %", "value, mean over the run", "difference",
               "success, mean over the run", "difference", "rollouts to 80 %", "ratio to default"]  # fmt: skip
    yield _header(columns)
    pairs = [(DEFAULT, BEYOND)]
    few = Learner("terminal", 2, 4)
    pairs.append((few, {"terminal 2×4": {}, "terminal 2×4, learned baseline": {"learned_baseline": True}}))
    for base, variants in pairs:
        learned = learn(CONFOUNDED, {name: replace(base, **changes) for name, changes in variants.items()}, size)
        first = next(iter(learned.values()))
        for name, curves in learned.items():
            value, success = curves.value_WE.mean(1), curves.success_WE.mean(1)
            yield _row([
                name, interval(curves.value_WE[:, curves.value_WE.shape[1] // 10]), interval(value),
                _difference(value - first.value_WE.mean(1)), interval(success),
                _difference(success - first.success_WE.mean(1)), reach(curves, 0.8), ratio(curves, first, 0.8),
            ])  # fmt: skip


def interval(values_W: np.ndarray) -> str:
    """Mean over worlds and half the width of its 95 % interval (normal)."""
    values = values_W[np.isfinite(values_W)]
    if not len(values):
        return "–"
    return f"{values.mean():.2f} ± {1.96 * values.std(ddof=1) / np.sqrt(len(values)):.2f}" if len(values) > 1 else "–"


def reach(curves: Curves, share: float) -> str:
    """Rollouts to reach `share` of the oracle's routing value."""
    needed = float(rollouts_to_reach(curves, share)[0])
    return f"{needed:,.0f}" if np.isfinite(needed) else f"over {curves.rollouts_E[-1]:,.0f}"


def ratio(curves: Curves, reference: Curves, share: float) -> str:
    """Ratio of the rollouts needed, with its 95 % bootstrap interval over worlds."""
    pair = [np.append(rollouts_to_reach(c, share), rollouts_to_reach(c, share, 1000)) for c in (curves, reference)]
    finite = np.isfinite(pair[1])
    if not finite[0]:
        return "–"
    ratios = pair[0] / np.maximum(np.where(finite, pair[1], reference.rollouts_E[-1]), 1)
    low, high = np.quantile(ratios[1:], [0.025, 0.975], method="nearest")
    shown = [f"{x:.2f}" if np.isfinite(x) else "∞" for x in (ratios[0], low, high)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _difference(values_W: np.ndarray) -> str:
    return "" if not values_W.any() else f"{interval(values_W)}"


def _header(columns: list[str]) -> str:
    return _row(columns) + "\n" + _row(["---"] * len(columns))


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
