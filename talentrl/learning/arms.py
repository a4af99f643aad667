"""The arms of one reinforcement step: drawn, rolled out, and turned into an advantage for every token.

Groups are keyed by task and arm, never by prompt text. Tokens of talents that the policy did not sample are masked.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Literal

import torch

from talentrl.benchmarks.taskset import Task
from talentrl.config import POLICY_WEIGHTED, Estimator, RlSection
from talentrl.errors import TrainingStopped
from talentrl.learning.advantages import execution_advantages, routing_advantages, row_coefficients
from talentrl.rollouts.episode import Episode
from talentrl.rollouts.interventions import Arm, derive_seed
from talentrl.rollouts.runner import RolloutRequest, RolloutRunner, Routing


@dataclass
class Arms:
    """One generation batch: episodes of T tasks × A arms × M rollouts, in that order, and their arms (T, A)."""

    episodes: list[Episode]
    rollouts: int
    routed_TA: torch.Tensor
    null_TA: torch.Tensor
    probabilities_TA: torch.Tensor
    """Probability of the arm's talent under the tempered policy, over the talents of the bank; 0 for other arms."""
    talents: list[str]
    """The Z talents of the bank."""
    tags_TZ: torch.Tensor
    """Log-probability of every talent's routing turn under the policy (not tempered)."""
    reward: Literal["return", "f1"] = "return"

    @property
    def rewards(self) -> list[float | None]:
        """What each rollout is rewarded with; None for a failed one."""
        return [episode.f1 if self.reward == "f1" else episode.value for episode in self.episodes]

    @property
    def returns_TAM(self) -> torch.Tensor:
        """Rewards; NaN for a failed rollout."""
        values = [math.nan if reward is None else reward for reward in self.rewards]
        return torch.tensor(values).reshape(*self.routed_TA.shape, self.rollouts)


def arms_per_task(settings: RlSection, talents: int) -> int:
    """Number of arms A of each task: every talent under `all_action`, else the drawn ones; plus interventions."""
    drawn = settings.arms
    if settings.estimator in POLICY_WEIGHTED:  # each talent at most once
        drawn = talents if settings.estimator == "all_action" else min(drawn, talents)
    return drawn + len(settings.interventions)


def collect(runner: RolloutRunner, tasks: Sequence[Task], settings: RlSection, seed: int) -> Arms:
    """Draw arms for each task and make their rollouts; rollout m of every talent has the same sampling seed.

    A talent that is drawn twice is two arms, whose rollouts are numbered on: they differ in their seeds.
    """
    requests: list[RolloutRequest] = []
    routed, null, probabilities, tags = [], [], [], []
    drawn = arms_per_task(settings, len(runner.bank.talents)) - len(settings.interventions)
    for task, turns in zip(tasks, runner.score_talents(tasks), strict=True):
        tags.append([sum(turn.logprobs) for turn in turns.values()])
        distribution = _distribution(turns, settings.routing_temperature)
        talents = _draw(settings.estimator, distribution, drawn, random.Random(derive_seed(seed, "arms", task.task_id)))
        arms = [(Arm(task, "routed", talent), turns[talent]) for talent in talents]
        for intervention in settings.interventions:
            talent = None if intervention == "null" else talents[0]
            arms.append((Arm(task, intervention, talent), runner.set_routing(talent)))
        made: Counter[str] = Counter()
        for arm, routing in arms:
            for rollout in range(made[arm.arm_id], made[arm.arm_id] + settings.rollouts):
                requests.append(
                    RolloutRequest(arm, routing, rollout, derive_seed(seed, "rollout", task.task_id, rollout))
                )
            made[arm.arm_id] += settings.rollouts
        routed.append([arm.intervention == "routed" for arm, _ in arms])
        null.append([arm.intervention == "null" for arm, _ in arms])
        probabilities.append([distribution[talent] for talent in talents] + [0.0] * len(settings.interventions))
    episodes = runner.run(requests, settings.temperature)
    return Arms(
        episodes,
        settings.rollouts,
        torch.tensor(routed),
        torch.tensor(null),
        torch.tensor(probabilities),
        list(runner.bank.talents),
        torch.tensor(tags),
        settings.reward,
    )


def token_advantages(arms: Arms, settings: RlSection, max_completion_tokens: int) -> list[torch.Tensor]:
    """Advantage of every token after the prompt, one tensor a rollout; 0 on all masked tokens.

    Execution tokens get A_exec. The routing span of an arm's first rollout gets β_route · A_route, divided by
    the number of spans (of tasks for the estimators that weight a task's talents by the policy) and by what TRL's
    loss will multiply it with, so that the total is
    J = J_exec + β_route · mean over spans of A_route · (sum of the span's log-probabilities).
    """
    returns = arms.returns_TAM
    route_TA = routing_advantages(
        settings.estimator,
        returns,
        arms.routed_TA,
        arms.null_TA,
        arms.probabilities_TA,
        settings.shrinkage,
        scale=settings.scale_rewards != "none",
    )
    within = "task" if settings.estimator == "shared" else settings.execution_baseline
    exec_B = execution_advantages(returns, settings.scale_rewards, within).flatten()
    trained = torch.tensor([float(sum(mask)) for mask in trained_masks(arms)])
    coefficient_B = row_coefficients(settings.loss_type, trained, max_completion_tokens)
    spans = len(arms.routed_TA) if settings.estimator in POLICY_WEIGHTED else max(1, int(arms.routed_TA.sum()))
    advantages = []
    for row, episode in enumerate(arms.episodes):
        route = 0.0
        arm, rollout = divmod(row, arms.rollouts)
        if rollout == 0:
            route = float(settings.routing_weight * route_TA.flatten()[arm] / (spans * coefficient_B[row]))
        after = slice(episode.prompt_tokens, None)
        routing = torch.tensor(episode.routing_mask[after], dtype=torch.float32)
        action = torch.tensor(episode.action_mask[after], dtype=torch.float32)
        advantages.append(route * routing + exec_B[row] * action)
    return advantages


def token_temperatures(episode: Episode, temperature: float) -> torch.Tensor:
    """What divides the logits of every token after the prompt in the loss: executions are differentiated as they were
    sampled, at `temperature`; the routing span, whose talent is drawn by its whole probability, at 1."""
    action = torch.tensor(episode.action_mask[episode.prompt_tokens :])
    return torch.where(action, temperature, 1.0)


def trained_masks(arms: Arms) -> list[list[int]]:
    """1 on the tokens after the prompt that carry loss: executions, and each arm's routing span once."""
    return [
        [
            int(action or (routing and row % arms.rollouts == 0))
            for routing, action in zip(
                episode.routing_mask[episode.prompt_tokens :],
                episode.action_mask[episode.prompt_tokens :],
                strict=True,
            )
        ]
        for row, episode in enumerate(arms.episodes)
    ]


def step_metrics(arms: Arms) -> dict[str, float]:
    """What a step's rollouts say about routing and execution; tasks whose routed arms all failed count for neither."""
    returns = arms.returns_TAM
    means_TA = returns.nanmean(-1)
    usable_TA = arms.routed_TA & ~means_TA.isnan()
    counted_T = usable_TA.any(1)
    best_T = means_TA.masked_fill(~usable_TA, -torch.inf).amax(1)
    worst_T = means_TA.masked_fill(~usable_TA, torch.inf).amin(1)
    share_TA = arms.probabilities_TA / _times_drawn(arms)
    p = share_TA * usable_TA
    regret_T = best_T - (p * means_TA.nan_to_num()).sum(1) / p.sum(1).clamp(min=1e-6)
    episodes = arms.episodes
    return {
        "return": float(returns.nanmean()),
        "routing/probability_of_drawn": float(share_TA.sum(1).mean()),
        "routing/regret": float(regret_T[counted_T].mean()),
        "routing/arm_spread": float((best_T - worst_T)[counted_T].mean()),
        "routing/equal_arms": float((best_T == worst_T)[counted_T].float().mean()),
        **_policy_metrics(arms),
        **_contrast_metrics(arms, means_TA, usable_TA),
        "execution/constant_arms": float((returns.amax(-1) == returns.amin(-1)).float().mean()),
        "execution/invalid_actions": sum(episode.invalid_actions for episode in episodes) / len(episodes),
        "execution/failed": sum(episode.value is None for episode in episodes) / len(episodes),
        "tokens/sampled": float(sum(episode.sampled_tokens for episode in episodes)),
    }


def _times_drawn(arms: Arms) -> torch.Tensor:
    """How many arms (T, A) of its task have an arm's intervention and talent: independent draws may repeat one."""
    tasks, count = arms.routed_TA.shape
    ids = [episode.arm_id for episode in arms.episodes[:: arms.rollouts]]
    drawn = [Counter(ids[task * count : (task + 1) * count]) for task in range(tasks)]
    return torch.tensor([drawn[place // count][id] for place, id in enumerate(ids)]).reshape(tasks, count)


def _policy_metrics(arms: Arms) -> dict[str, float]:
    """The policy over talents, not tempered: its mean entropy over tasks (nats), the mean probability of each talent,
    and the probability that a sampled routing turn is none of the tags, since rollouts never sample one."""
    log_policy_TZ = arms.tags_TZ.double().log_softmax(1)
    policy_TZ = log_policy_TZ.exp()
    return {
        "routing/entropy": float(-(policy_TZ * log_policy_TZ).sum(1).mean()),
        "routing/invalid_rate": float((1 - arms.tags_TZ.double().exp().sum(1)).clamp(min=0).mean()),
        **{f"routing/probability/{t}": float(p) for t, p in zip(arms.talents, policy_TZ.mean(0), strict=True)},
    }


def _contrast_metrics(arms: Arms, means_TA: torch.Tensor, usable_TA: torch.Tensor) -> dict[str, float]:
    """Mean and standard deviation over tasks of each talent's contrast, R̄_a − mean over the task's routed arms."""
    contrast_TA = means_TA - means_TA.masked_fill(~usable_TA, torch.nan).nanmean(1, keepdim=True)
    found: dict[str, list[float]] = {}
    for arm, (contrast, usable) in enumerate(zip(contrast_TA.flatten(), usable_TA.flatten(), strict=True)):
        if usable:
            found.setdefault(str(arms.episodes[arm * arms.rollouts].talent), []).append(float(contrast))
    metrics = {}
    for talent, contrasts in sorted(found.items()):
        metrics[f"routing/contrast/{talent}"] = fmean(contrasts)
        metrics[f"routing/contrast_spread/{talent}"] = pstdev(contrasts)
    return metrics


def _distribution(turns: dict[str, Routing], temperature: float) -> dict[str, float]:
    """The distribution over the bank's talents, proportional to π^(1/temperature) of their routing turns."""
    logits = torch.tensor([sum(turn.logprobs) for turn in turns.values()], dtype=torch.float64)
    if not logits.isfinite().all():
        raise TrainingStopped("a talent's log-probability is no number: the model's weights are broken")
    return dict(zip(turns, torch.softmax(logits / temperature, 0).tolist(), strict=True))


def _draw(estimator: Estimator, distribution: dict[str, float], count: int, draw: random.Random) -> list[str]:
    """The talents of a task's arms: all, or distinct ones (Gumbel top-k), or independent draws."""
    if estimator not in POLICY_WEIGHTED:
        return draw.choices(list(distribution), list(distribution.values()), k=count)
    keys = {
        talent: math.log(max(probability, 1e-12)) - math.log(-math.log(draw.random() or 1e-12))
        for talent, probability in distribution.items()
    }
    return sorted(keys, key=lambda talent: -keys[talent])[:count]
