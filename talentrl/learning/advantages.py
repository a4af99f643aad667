"""Credit assignment as pure functions of returns.

Shapes: T tasks, A arms a task, M rollouts an arm. A failed rollout has return NaN; it teaches nothing and shifts
no mean.

With R̄_a the mean return of an arm and R̄_x that of its task, R − R̄_x = (R − R̄_a) + (R̄_a − R̄_x): the first
term belongs to the execution, the second to the routing (DESIGN §7).
"""

import torch

from talentrl.config import POLICY_WEIGHTED, Estimator

_EPSILON = 1e-4
_ROUNDING = 1e-6
"""Differences of returns in [0, 1] below this are float32 rounding of equal means. They count as 0, since an
adaptive optimiser would make full steps of them."""


def arm_means(returns_TAM: torch.Tensor) -> torch.Tensor:
    """Mean return of each arm (T, A) over its rollouts; NaN where all of them failed."""
    return returns_TAM.nanmean(dim=-1)


def routing_advantages(
    estimator: Estimator,
    returns_TAM: torch.Tensor,
    routed_TA: torch.Tensor,
    null_TA: torch.Tensor,
    probabilities_TA: torch.Tensor,
    shrinkage: float = 0.0,
    scale: bool = False,
) -> torch.Tensor:
    """Advantage of each arm's routing span (T, A); 0 for arms whose talent the policy did not sample.

    What each gives, times M / (M + shrinkage), with π renormalised over the task's routed arms:

    - `contrast_distinct`: π_a (R̄_a − Σ_b π_b R̄_b) over the drawn arms, which equals the contrast with the other
      arms, R̄_a − Σ_{b≠a} π_b R̄_b / (1 − π_a), times π_a (1 − π_a). It is the gradient of the expected return of the
      policy confined to the drawn talents. Unweighted contrasts would push hardest on talents that the policy
      all but excludes already, without bound, since arms drawn without replacement hold many of those.
    - `all_action`: the same over all talents: the exact gradient of expected return over routing (COMA-style
      baseline, Foerster et al. 2018, eq. 4).
    - `contrast_loo`: R̄_a − mean of the task's other routed arms (leave one out; Kool et al. 2019, eq. 8, on arms).
      Unbiased for arms drawn i.i.d. from the policy; the same talent drawn twice is two arms.
    - `contrast_null`: R̄_a − mean of the null arms.
    - `terminal`: R̄_a − mean return of the batch (REINFORCE with a mean baseline).
    - `shared`: R̄_a − R̄_x with x the task's rollouts in all arms (GRPO's one advantage, Shao et al. 2024).

    Args:
        estimator: name of the estimator.
        returns_TAM: returns.
        routed_TA: whether the policy sampled the arm's talent.
        null_TA: whether the arm is the null talent.
        probabilities_TA: the policy's probability of the arm's talent; `contrast_distinct` and `all_action` use it.
        shrinkage: κ ≥ 0, towards 0 for small M.
        scale: divide by the root mean square over the batch (never over one task's arms).
    """
    means_TA = arm_means(returns_TAM)
    usable_TA = routed_TA & ~means_TA.isnan()
    filled_TA = means_TA.nan_to_num()
    weights_TA = torch.ones_like(filled_TA)
    if estimator in POLICY_WEIGHTED:
        weights_TA = probabilities_TA * usable_TA
        weights_TA = weights_TA / weights_TA.sum(1, keepdim=True).clamp(min=1e-12)
        baseline_TA = (weights_TA * filled_TA).sum(1, keepdim=True)
    elif estimator == "contrast_loo":
        others_TA = usable_TA.sum(1, keepdim=True) - 1
        baseline_TA = ((filled_TA * usable_TA).sum(1, keepdim=True) - filled_TA) / others_TA.clamp(min=1)
        usable_TA = usable_TA & (others_TA > 0)
    elif estimator == "contrast_null":
        reference_TA = means_TA.masked_fill(~null_TA, torch.nan)
        baseline_TA = reference_TA.nanmean(1, keepdim=True)
        usable_TA = usable_TA & ~baseline_TA.isnan()
    elif estimator == "terminal":
        baseline_TA = returns_TAM.nanmean()
    else:
        baseline_TA = returns_TAM.flatten(1).nanmean(1, keepdim=True)
    rollouts = returns_TAM.shape[-1]
    advantages_TA = weights_TA * _difference(filled_TA, baseline_TA) * (rollouts / (rollouts + shrinkage))
    advantages_TA = advantages_TA.masked_fill(~usable_TA, 0.0)
    if scale and usable_TA.any():
        advantages_TA = advantages_TA / (advantages_TA[usable_TA].square().mean().sqrt() + _EPSILON)
    return advantages_TA


def execution_advantages(returns_TAM: torch.Tensor, scaling: str = "none", within: str = "arm") -> torch.Tensor:
    """Group-relative advantage of each rollout's execution tokens (T, A, M).

    A_exec = (R − R̄) / scale, R̄ being the mean of the rollout's arm (or of its task, `within="task"`, which is
    what GRPO shares between all tokens). 0 for a group of one rollout, of equal returns, or for a failed rollout.

    Args:
        returns_TAM: returns.
        scaling: `group` divides by the group's standard deviation, `batch` by that of all advantages, `none` by 1.
        within: `arm` or `task`.
    """
    groups = returns_TAM if within == "arm" else returns_TAM.flatten(1)
    advantages = _difference(groups, groups.nanmean(-1, keepdim=True))
    if scaling == "group":
        counts = (~groups.isnan()).sum(-1, keepdim=True)
        deviation = (advantages.square().sum(-1, keepdim=True) / (counts - 1).clamp(min=1)).sqrt()
        advantages = advantages / (deviation + _EPSILON)
    elif scaling == "batch":
        advantages = advantages / (advantages.square().mean().sqrt() + _EPSILON)
    return advantages.reshape(returns_TAM.shape)


def row_coefficients(loss_type: str, trained_tokens_B: torch.Tensor, max_completion_tokens: int) -> torch.Tensor:
    """What TRL's loss multiplies the token losses of each rollout with (B,), over a whole optimiser step.

    `grpo`: 1 / (B · tokens of the rollout); `dapo`: 1 / (tokens of all rollouts); `dr_grpo`: 1 / (B · maximum).
    The routing loss has its own normaliser, so its advantages are divided by this.
    """
    rollouts = trained_tokens_B.shape[0]
    if loss_type == "grpo":
        return 1 / (rollouts * trained_tokens_B.clamp(min=1))
    total = trained_tokens_B.sum().clamp(min=1) if loss_type == "dapo" else rollouts * max_completion_tokens
    return torch.ones_like(trained_tokens_B, dtype=torch.float32) / total


def _difference(values: torch.Tensor, baseline: torch.Tensor) -> torch.Tensor:
    """values − baseline; 0 where either is NaN or they are equal up to rounding."""
    difference = (values - baseline).nan_to_num()
    return difference.masked_fill(difference.abs() < _ROUNDING, 0.0)
