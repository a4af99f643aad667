"""The systems that are compared: which checkpoint each uses, and how its arms are set."""

import random
from collections.abc import Sequence
from pathlib import Path

from talentrl import layout
from talentrl.benchmarks.taskset import Task
from talentrl.config import Intervention, System
from talentrl.rollouts.episode import Episode
from talentrl.rollouts.interventions import Arm, derive_seed
from talentrl.rollouts.runner import RolloutRequest, RolloutRunner


def checkpoint(system: System, seed: int) -> Path:
    """`zero_shot` is the pretrained model, `sft` the supervised one; all others use the reinforced model."""
    if system == "zero_shot":
        return layout.MODEL
    return (layout.SFT if system == "sft" else layout.RL) / str(seed)


def evaluate_system(system: System, runner: RolloutRunner, tasks: Sequence[Task], seed: int) -> list[Episode]:
    """Greedy episodes of `system`, each task once (`oracle`: once a talent).

    `zero_shot`, `sft` and `rl` route for themselves; so do `strategy_only`, `skills_only` and `tag_only`, which then
    see only that part of the talent context; `flat` has no talent; `random` is given one by lot; `oracle` tries every
    talent, and the best arm in hindsight is read off its episodes.
    """
    requests = []
    interventions: dict[System, Intervention] = {system: "routed" for system in ("zero_shot", "sft", "rl")}
    interventions |= {"strategy_only": "strategy_only", "skills_only": "skills_only", "tag_only": "tag_only"}
    if system in interventions:
        routings = runner.route(tasks, [0] * len(tasks))
        requests = [
            RolloutRequest(Arm(task, interventions[system], routing.talent), routing, 0, seed)
            for task, routing in zip(tasks, routings, strict=True)
        ]
    else:
        for task in tasks:
            draw = random.Random(derive_seed(seed, "random", task.task_id))
            talents: dict[str, list[str | None]] = {
                "flat": [None],
                "random": [draw.choice(list(runner.bank.talents))],
                "oracle": list(runner.bank.talents),
            }
            for talent in talents[system]:
                arm = Arm(task, "forced" if talent else "null", talent)
                requests.append(RolloutRequest(arm, runner.set_routing(talent), 0, seed))
    return runner.run(requests, temperature=0.0, progress=system)
