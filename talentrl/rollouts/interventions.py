"""Arms and interventions: how a talent context is set.

All arms of a task share the environment, the decoding settings, the policy snapshot, the number of skills, the
budgets and, rollout by rollout, the sampling seeds. Only the talent context differs.
"""

import hashlib
from dataclasses import dataclass

from talentrl.bank.bank import SkillBank
from talentrl.benchmarks.taskset import Task
from talentrl.config import Intervention
from talentrl.policy.prompts import talent_context
from talentrl.retrieval.index import Hit
from talentrl.retrieval.skills import SkillRetriever


@dataclass(frozen=True)
class Arm:
    """A task under one fixed talent context."""

    task: Task
    intervention: Intervention
    talent: str | None
    """Talent id; None for the null talent."""

    @property
    def arm_id(self) -> str:
        """Explicit key of the arm within its task; never derived from prompt text."""
        return f"{self.intervention}:{self.talent or 'none'}"

    def context(
        self, bank: SkillBank, retriever: SkillRetriever, skills: int, show_strategy: bool = True
    ) -> tuple[str, list[Hit]]:
        """The talent context's text and the skills in it; without `show_strategy`, no arm has a strategy.

        Strategy: all interventions but `null` and `skills_only`. Talent prior in retrieval: all but `null` and
        `strategy_only`. `tag_only` has neither strategy nor skills.
        """
        if self.intervention == "tag_only":
            return talent_context(None, []), []
        with_strategy = show_strategy and self.talent is not None and self.intervention not in ("null", "skills_only")
        with_prior = self.talent is not None and self.intervention not in ("null", "strategy_only")
        hits = retriever.retrieve(self.task.instruction, self.talent if with_prior else None, skills)
        strategy = bank.talents[self.talent].strategy if with_strategy and self.talent else None
        return talent_context(strategy, [bank.skills[hit.id] for hit in hits]), hits


def derive_seed(*parts: object) -> int:
    """A 31-bit seed from the parts' text: stable between processes and machines."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
