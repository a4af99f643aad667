"""Demonstrations by a scripted teacher, and the arms they measure.

The teacher plays every talent's strategy on every task, also where it fails. The talent whose demonstration did
best is the routing target. Some other arms are kept too: they teach the executor to follow the strategy it is
given, without which strategy and question would coincide in training and the executor could ignore the strategy.
Their routing turn is masked, and so is their answer where it is wrong.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tqdm import tqdm

from talentrl.benchmarks.taskset import Task
from talentrl.benchmarks.teachers import Teacher
from talentrl.errors import InputError
from talentrl.policy.parser import parse_action
from talentrl.rollouts.episode import Episode, StopReason
from talentrl.rollouts.interventions import Arm, derive_seed
from talentrl.rollouts.runner import RolloutRequest, RolloutRunner


def measure_arms(runner: RolloutRunner, teacher: Teacher, tasks: Sequence[Task], seed: int) -> list[list[Episode]]:
    """Play every talent on every task; one list of forced episodes a task, in the bank's order of talents."""
    return [
        [_demonstrate(runner, teacher, task, "forced", talent, seed) for talent in runner.bank.talents]
        for task in tqdm(tasks, desc="teacher", unit="task")
    ]


def choose_conversations(
    runner: RolloutRunner,
    teacher: Teacher,
    tasks: Sequence[Task],
    measured: Sequence[Sequence[Episode]],
    forced_arms: int,
    null_share: float,
    seed: int,
) -> list[Episode]:
    """The conversations to train on, those of a task together and with one shuffled menu, so that they share a prompt.

    Each task gives its best arm, whose routing turn is a target (intervention `routed`), or, for a share of the
    tasks, the same demonstration told without a talent (`null`), after flat retrieval; and `forced_arms` others drawn
    from the rest that no limit cut short (`forced`). Tasks on which every arm fails give nothing.
    """
    conversations = []
    for task, episodes in zip(tasks, measured, strict=True):
        draw = random.Random(derive_seed(seed, "demonstrations", task.task_id))
        best = _best(episodes, draw)
        if best is None or best.talent is None:
            continue
        arms = [("null" if draw.random() < null_share else "routed", best.talent)]
        rest = [
            episode.talent
            for episode in episodes
            if episode is not best and episode.talent and not _is_cut(episode, runner.limits.turns)
        ]
        arms += [("forced", other) for other in draw.sample(rest, min(forced_arms, len(rest)))]
        menu = draw.sample(sorted(runner.bank.talents), len(runner.bank.talents))
        for intervention, talent in arms:
            episode = _demonstrate(runner, teacher, task, intervention, talent, seed, tuple(menu))
            conversations.append(episode if episode.value else _without_answer(episode))
    return conversations


def lint_demonstrations(runner: RolloutRunner, conversations: Sequence[Episode]) -> dict[str, Any]:
    """Measure what makes demonstrations worthless, and refuse those that are.

    Returns:
        Counts, class balance of the routing targets, and the share of targets whose context holds a skill
        associated with the talent.

    Raises:
        InputError: there is neither a routing target nor a null conversation, a conversation was cut short, or no
            target's context holds an associated skill.
    """
    targets = [episode for episode in conversations if any(episode.routing_mask)]
    cut = [episode.episode_id for episode in conversations if _is_cut(episode, runner.limits.turns)]
    associated = [
        any(skill.id in runner.bank.talents[episode.talent].skills for skill in episode.skills)
        for episode in targets
        if episode.talent
    ]
    problems = []
    nulls = sum(episode.intervention == "null" for episode in conversations)
    if not targets and not nulls:
        problems.append("no routing target: the teacher fails on every task")
    elif targets and not any(associated):
        problems.append("no target's context holds a skill associated with its talent")
    if cut:
        problems.append(f"{len(cut)} conversations were cut short by a limit, the first is {cut[0]!r}")
    if problems:
        raise InputError("demonstrations: " + "; ".join(problems))
    balance = Counter(episode.talent for episode in targets)
    return {
        "conversations": len(conversations),
        "tokens": sum(len(episode.token_ids) for episode in conversations),
        "longest": max(len(episode.token_ids) for episode in conversations),
        "targets": {talent: balance.get(talent, 0) for talent in runner.bank.talents},
        "targets_with_associated_skill": sum(associated) / len(associated) if targets else None,
        "null_conversations": nulls,
        "distinct_skill_contexts": len({tuple(s.id for s in episode.skills) for episode in conversations}),
    }


def _is_cut(episode: Episode, turns: int) -> bool:
    """Whether a limit ended the episode; a teacher may give up by itself."""
    said = sum(turn.role == "assistant" for turn in episode.turns) - 1
    return episode.stop_reason != StopReason.ANSWERED and (
        episode.stop_reason != StopReason.TURN_LIMIT or said >= turns
    )


def _without_answer(episode: Episode) -> Episode:
    """A failed demonstration teaches how its strategy searches, not its wrong answer: that turn is masked."""
    action = parse_action(episode.turns[-1].text)
    if action is None or action.kind != "answer":
        return episode
    mask = list(episode.action_mask)
    place = len(mask) - 1
    while place >= 0 and not mask[place]:
        place -= 1
    while place >= 0 and mask[place]:
        mask[place] = False
        place -= 1
    return replace(episode, action_mask=mask)


def _best(episodes: Sequence[Episode], draw: random.Random) -> Episode | None:
    """The episode with the highest return; among equals the shortest, then any by lot. None if all fail."""
    top = max(episode.value or 0.0 for episode in episodes)
    if top <= 0:
        return None
    best = [episode for episode in episodes if episode.value == top]
    shortest = min(len(episode.turns) for episode in best)
    return draw.choice([episode for episode in best if len(episode.turns) == shortest])


def _demonstrate(
    runner: RolloutRunner,
    teacher: Teacher,
    task: Task,
    intervention: Any,
    talent: str,
    seed: int,
    menu: tuple[str, ...] = (),
) -> Episode:
    """One episode in which the teacher plays `talent`; in a `null` arm it does so without saying so."""
    shown = None if intervention == "null" else talent
    routing = replace(runner.set_routing(shown), sampled=intervention == "routed")
    request = RolloutRequest(Arm(task, intervention, shown), routing, 0, seed, menu)
    return runner.play(request, lambda opening: teacher(task, talent, opening))
