"""What the policy reads: the system prompt with the talent menu, and the talent context after the routing turn."""

from collections.abc import Sequence
from typing import Literal

from talentrl.bank.bank import NULL_TALENT
from talentrl.bank.skill import Skill
from talentrl.bank.talent import Talent

EnvironmentKind = Literal["qa", "alfworld", "webshop"]

_SYSTEM = "Choose a talent for the {task}: <talent>id</talent>. Then work step by step: {actions}\nTalents:\n{talents}"
_ACTIONS: dict[EnvironmentKind, str] = {
    "qa": "<search>query</search> to read passages, <answer>short answer</answer> to finish.",
    "alfworld": "<action>command</action>. Commands: go to P, open P, close P, take X from P, move X to P, use X, "
    "heat X with P, cool X with P, clean X with P, examine X, look, inventory.",
    "webshop": "<action>search[words]</action> or <action>click[button]</action>; click[buy now] to finish.",
}


def system_prompt(talents: Sequence[Talent], kind: EnvironmentKind = "qa") -> str:
    """Role, the actions of a kind of environment, and the talent menu, in the order given."""
    menu = "\n".join(f"{talent.id}: {talent.description}" for talent in talents)
    return _SYSTEM.format(task="question" if kind == "qa" else "task", actions=_ACTIONS[kind], talents=menu)


def routing_turn(talent_id: str | None) -> str:
    """The assistant turn that names `talent_id`; None is the null talent."""
    return f"<talent>{talent_id or NULL_TALENT}</talent>"


def observation(text: str, admissible: Sequence[str] | None) -> str:
    """What the policy reads after an action: the environment's text, then the commands that are valid, if given."""
    return f"{text}\nYou can: {', '.join(admissible)}" if admissible else text


def talent_context(strategy: str | None, skills: Sequence[Skill]) -> str:
    """The user turn after routing: the strategy (if any), then one line a skill."""
    lines = [f"Strategy: {strategy}"] if strategy else []
    lines += [f"{skill.id}: {' '.join(skill.body.split())}" for skill in skills]
    return "\n".join(lines) or "No strategy."
