"""A linear router and an executor that learn in the simulated world, with the advantages of `talentrl.learning`.

One step is one step of the reinforcement stage: draw tasks, draw arms from the (tempered) policy as the trainer does,
make rollouts, turn returns into advantages, move router and executor by Adam. All worlds go side by side.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import softmax

from benchmarks.credit.memory import Memory
from benchmarks.credit.world import World, draw_fits, play, sample_tasks
from talentrl.config import POLICY_WEIGHTED, Estimator
from talentrl.learning.advantages import arm_means, execution_advantages, routing_advantages

STEP_ROLLOUTS = 64
"""Rollouts of one step, whatever their split over tasks and arms."""


@dataclass(frozen=True)
class Learner:
    """An estimator, how its rollouts are split, and what is tried on top of it."""

    estimator: Estimator
    arms: int
    """Arms of a task, the null arm of `contrast_null` included; `all_action` has as many as there are talents."""
    rollouts: int
    temperature: float | np.ndarray = 1.0
    """Routing temperature; or one a world (W, 1, 1)."""
    choice: str = "policy"
    """`policy`; `ucb` or `thompson` (distinct talents by the values of similar tasks); `halving` (the better half of
    the arms gets the second half of the rollouts)."""
    bonus: float = 0.5
    pooling: float = 0.0
    """Rollouts that the contrast of similar tasks counts for; 0: none."""
    learned_baseline: bool = False
    shrinkage: float = 0.0
    scale: bool = False
    replay: int = 0
    """Updates on past contrasts after each step."""
    shared_execution: bool = False
    """Execution advantages relative to the task, as `shared` has them, with another routing estimator."""

    @property
    def cost(self) -> int:
        """Rollouts of one task."""
        return self.arms * self.rollouts

    def for_talents(self, talents: int) -> "Learner":
        """With no more distinct arms than there are talents."""
        if self.estimator == "all_action":
            return replace(self, arms=talents)
        return replace(self, arms=min(self.arms, talents)) if self.estimator in POLICY_WEIGHTED else self


@dataclass(frozen=True)
class Step:
    """What one step of rollouts gave."""

    kinds_WT: np.ndarray
    features_WTF: np.ndarray
    arms_WTA: np.ndarray
    returns_WTAM: np.ndarray
    executed_WTAM: np.ndarray
    probabilities_WTA: np.ndarray
    policy_WTK: np.ndarray


def collect(
    world: World, router_WFK: np.ndarray, learner: Learner, draw: np.random.Generator, memory: Memory | None = None
) -> Step:
    """Draw tasks and arms, and make the rollouts of one step."""
    tasks = max(1, STEP_ROLLOUTS // learner.cost)
    kinds, features, difficulty = sample_tasks(world, tasks, draw)
    logits = features @ router_WFK
    tempered = softmax(logits / learner.temperature, axis=-1)
    arms = draw_arms(tempered, features, learner, draw, memory)
    fits = draw_fits(world, kinds, draw)
    first = 1 if learner.choice == "halving" else learner.rollouts
    returns, executed = play(world, kinds, difficulty, arms, fits, first, draw)
    if learner.choice == "halving":
        more, well = play(world, kinds, difficulty, arms, fits, 2 * (learner.rollouts - 1), draw)
        rank = np.argsort(np.argsort(-returns[..., 0] + 0.1 * draw.random(arms.shape), -1), -1)
        more[rank >= arms.shape[-1] // 2] = np.nan
        returns, executed = np.concatenate([returns, more], -1), np.concatenate([executed, well], -1)
    routed = arms < world.talents
    chances = np.take_along_axis(tempered, np.where(routed, arms, 0), -1) * routed
    return Step(kinds, features, arms, returns, executed, chances, softmax(logits, axis=-1))


def draw_arms(
    tempered_WTK: np.ndarray, features_WTF: np.ndarray, learner: Learner, draw: np.random.Generator,
    memory: Memory | None = None,
) -> np.ndarray:  # fmt: skip
    """Talents of the arms (W, T, A), as the trainer draws them; the null talent is the one after the last."""
    talents = tempered_WTK.shape[-1]
    if learner.estimator == "all_action":
        return np.broadcast_to(np.arange(talents), tempered_WTK.shape)
    gumbel = -np.log(-np.log(draw.random(tempered_WTK.shape)))
    if learner.choice in ("ucb", "thompson") and memory is not None and memory.filled:
        sums, counts = memory.nearest(features_WTF)
        if learner.choice == "thompson":
            score = draw.beta(1 + sums, 1 + np.maximum(counts - sums, 0))
        else:
            prior = sums.sum(-1, keepdims=True) / counts.sum(-1, keepdims=True)
            score = (sums + prior) / (counts + 1) + learner.bonus / np.sqrt(counts + 1) + 1e-6 * gumbel
        return np.argsort(-score, -1)[..., : learner.arms]
    if learner.estimator in POLICY_WEIGHTED:
        return np.argsort(-(np.log(tempered_WTK + 1e-12) + gumbel), -1)[..., : learner.arms]
    drawn = learner.arms - (learner.estimator == "contrast_null")
    cumulative = tempered_WTK.cumsum(-1)[..., None, :-1]
    arms = (draw.random((*tempered_WTK.shape[:2], drawn, 1)) > cumulative).sum(-1)
    if learner.estimator == "contrast_null":
        arms = np.concatenate([arms, np.full_like(arms[..., :1], talents)], -1)
    return arms


def routing_gradient(step: Step, learner: Learner, memory: Memory | None = None) -> np.ndarray:
    """Estimated gradient of the expected return with respect to each task's router logits (W, T, K).

    Normalised as the trainer does: a mean over tasks for the policy-weighted estimators, over routing spans for the
    others.
    """
    talents = step.policy_WTK.shape[-1]
    routed = step.arms_WTA < talents
    advantages = _routing_advantages(_adjusted(step, learner, memory), routed, step.probabilities_WTA, learner)
    hot = np.eye(talents + 1)[step.arms_WTA][..., :-1]
    gradient = np.einsum("wta,wtak->wtk", advantages, hot) - advantages.sum(-1, keepdims=True) * step.policy_WTK
    return gradient if learner.estimator in POLICY_WEIGHTED else gradient / routed.sum(-1, keepdims=True)


def execution_gradient(step: Step, world: World, learner: Learner) -> np.ndarray:
    """REINFORCE gradient of the executor's log-odds (W, N, K), summed over the rollouts of the step."""
    worlds, tasks, arms, rollouts = step.returns_WTAM.shape
    shared = learner.estimator == "shared" or learner.shared_execution
    advantages = execution_advantages(
        torch.from_numpy(step.returns_WTAM.reshape(worlds * tasks, arms, rollouts)), within="task" if shared else "arm"
    ).numpy()
    rows, kinds = np.arange(worlds)[:, None, None], step.kinds_WT[..., None]
    chance = 1 / (1 + np.exp(-world.practice_WNK[rows, kinds, step.arms_WTA]))
    pushes = (advantages.reshape(step.returns_WTAM.shape) * (step.executed_WTAM - chance[..., None])).sum(-1)
    gradient = np.zeros_like(world.practice_WNK)
    np.add.at(gradient, (rows, kinds, step.arms_WTA), pushes)
    return gradient


class Adam:
    """Adam (Kingma and Ba 2015) that ascends; one learning rate, or one a world (W, 1, 1)."""

    def __init__(self, rates: float | np.ndarray, shape: tuple[int, ...]) -> None:
        self.rates, self.steps = rates, 0
        self.first, self.second = np.zeros(shape), np.zeros(shape)

    def step(self, gradient_WFK: np.ndarray) -> np.ndarray:
        """What to add to the weights."""
        self.steps += 1
        self.first += 0.1 * (gradient_WFK - self.first)
        self.second += 0.001 * (gradient_WFK**2 - self.second)
        mean = self.first / (1 - 0.9**self.steps)
        return self.rates * mean / (np.sqrt(self.second / (1 - 0.999**self.steps)) + 1e-8)


def needs_memory(learner: Learner) -> bool:
    """Whether the learner looks at past tasks."""
    past = learner.choice in ("ucb", "thompson") or learner.pooling or learner.learned_baseline or learner.replay
    return bool(past)


def replayed(router_WFK: np.ndarray, memory: Memory, learner: Learner, tasks: int, draw: np.random.Generator) -> Step:
    """A step of past contrasts, weighted by the probabilities of now, as the trainer's replay takes them."""
    features, arms, means = memory.sample(tasks, draw)
    logits = features @ router_WFK
    chances = np.take_along_axis(softmax(logits / learner.temperature, axis=-1), arms, -1)
    empty = np.zeros(arms.shape[:2], dtype=int)
    return Step(empty, features, arms, means[..., None], means[..., None], chances, softmax(logits, axis=-1))


def _adjusted(step: Step, learner: Learner, memory: Memory | None) -> np.ndarray:
    """The returns that the estimator sees: less a learned baseline, or pooled with the contrasts of similar tasks."""
    if memory is None or not memory.filled:
        return step.returns_WTAM
    if learner.learned_baseline:
        return step.returns_WTAM - memory.mean_return(step.features_WTF)[..., None, None]
    if learner.pooling:
        sums, counts = memory.nearest(step.features_WTF, contrast=True)
        near = np.take_along_axis(sums / np.maximum(counts, 1), step.arms_WTA, -1)
        weight = learner.pooling * (np.take_along_axis(counts, step.arms_WTA, -1) > 0)
        means = step.returns_WTAM.mean(-1)
        centre = means.mean(-1, keepdims=True)
        pooled = (learner.rollouts * (means - centre) + weight * near) / (learner.rollouts + weight)
        return (centre + pooled)[..., None]
    return step.returns_WTAM


def _routing_advantages(
    returns_WTAM: np.ndarray, routed_WTA: np.ndarray, probabilities_WTA: np.ndarray, learner: Learner
) -> np.ndarray:
    """`routing_advantages` with each world a batch of its own (W, T, A)."""
    tensors = [torch.from_numpy(x) for x in (returns_WTAM, routed_WTA, ~routed_WTA, probabilities_WTA)]

    def of_batch(
        returns: torch.Tensor, routed: torch.Tensor, null: torch.Tensor, chances: torch.Tensor
    ) -> torch.Tensor:
        return routing_advantages(learner.estimator, returns, routed, null, chances, learner.shrinkage, learner.scale)

    if learner.scale:  # its branch on the batch cannot be vectorised
        return torch.stack([of_batch(*batch) for batch in zip(*tensors, strict=True)]).numpy()
    if learner.estimator == "terminal":  # the one whose baseline is that of the batch
        return torch.vmap(of_batch)(*tensors).numpy()
    return of_batch(*(x.flatten(0, 1) for x in tensors)).numpy().reshape(routed_WTA.shape)


def mean_returns(returns_WTAM: np.ndarray) -> np.ndarray:
    """Mean return of each arm (W, T, A)."""
    return arm_means(torch.from_numpy(returns_WTAM)).numpy()
