"""Retrieval of skills under a talent: the bank's association weights are the prior of a hybrid search.

    score(q, s) = sim(q, s) + λ · w(z, s)

with w the weight of skill s under talent z. Without a talent, or with λ = 0, this is flat retrieval.
"""

import difflib
from collections.abc import Sequence

from talentrl.bank.bank import SkillBank
from talentrl.bank.skill import Skill
from talentrl.errors import InputError
from talentrl.retrieval.index import Document, Hit, HybridIndex


def skill_documents(bank: SkillBank, with_body: bool = False) -> list[Document]:
    """The documents that an index of the bank's skills holds, in order of id."""
    return [Document(skill.id, skill_text(skill, with_body)) for skill in bank.skills.values()]


def skill_text(skill: Skill, with_body: bool = False) -> str:
    """What a skill is found by: its name, description and when to use it; also its body if asked."""
    parts = [skill.name, skill.description, skill.when_to_use]
    return "\n".join(part for part in [*parts, skill.body if with_body else ""] if part)


class SkillRetriever:
    """Finds the skills of a bank in an index that was built from `skill_documents` of the same bank."""

    def __init__(self, index: HybridIndex, bank: SkillBank, prior_weight: float) -> None:
        """Check that index and bank hold the same skills.

        Args:
            index: holds one document a skill.
            bank: gives the association weights of its talents.
            prior_weight: λ ≥ 0; infinity is the hard filter.

        Raises:
            InputError: the index holds other skills than the bank.
        """
        if index.count() != len(bank.skills):
            raise InputError(
                f"skill index holds {index.count()} skills, the bank {len(bank.skills)}: rebuild the index"
            )
        index.documents(list(bank.skills))
        self.index = index
        self.bank = bank
        self.prior_weight = prior_weight

    def retrieve(self, query: str, talent_id: str | None, k: int) -> list[Hit]:
        """The best `k` skills for `query` under a talent; flat retrieval when it is None.

        Raises:
            InputError: the bank has no such talent.
        """
        return self.index.search(query, k, self._weights(talent_id), self.prior_weight)

    def retrieve_many(self, requests: Sequence[tuple[str, str | None]], k: int) -> list[list[Hit]]:
        """`retrieve` for several (query, talent id) pairs at once."""
        boosts = [self._weights(talent_id) for _, talent_id in requests]
        return self.index.search_many([query for query, _ in requests], k, boosts, self.prior_weight)

    def _weights(self, talent_id: str | None) -> dict[str, float] | None:
        if talent_id is None:
            return None
        if talent_id not in self.bank.talents:
            near = difflib.get_close_matches(talent_id, self.bank.talents, n=3, cutoff=0.4)
            raise InputError(f"no talent {talent_id!r} in the bank: nearest are {near or sorted(self.bank.talents)}")
        return self.bank.talents[talent_id].skills
