"""What the policy reads: the system prompt with the talent menu, and the talent context after the routing turn."""

from collections.abc import Sequence

from talentrl.bank.bank import NULL_TALENT
from talentrl.bank.skill import Skill
from talentrl.bank.talent import Talent

_SYSTEM = (
    "Choose a talent for the question: <talent>id</talent>. Then work step by step: "
    "<search>query</search> to read passages, <answer>short answer</answer> to finish.\nTalents:\n"
)


def system_prompt(talents: Sequence[Talent]) -> str:
    """Role, actions and the talent menu, in the order given."""
    return _SYSTEM + "\n".join(f"{talent.id}: {talent.description}" for talent in talents)


def routing_turn(talent_id: str | None) -> str:
    """The assistant turn that names `talent_id`; None is the null talent."""
    return f"<talent>{talent_id or NULL_TALENT}</talent>"


def talent_context(strategy: str | None, skills: Sequence[Skill]) -> str:
    """The user turn after routing: the strategy (if any), then one line a skill."""
    lines = [f"Strategy: {strategy}"] if strategy else []
    lines += [f"{skill.id}: {' '.join(skill.body.split())}" for skill in skills]
    return "\n".join(lines) or "No strategy."
