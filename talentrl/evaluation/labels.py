"""Queries whose relevant documents are known, to measure retrieval on.

A hash of its id puts every query into the tuning or the held-out half, before anyone looks at it: settings are
chosen on the one and reported on the other.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from talentrl.bank.bank import SkillBank
from talentrl.benchmarks.qa_sets import load_qa
from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError
from talentrl.retrieval.index import Document
from talentrl.retrieval.skills import skill_documents
from talentrl.rollouts.assembly import passage_documents


@dataclass(frozen=True)
class LabelledSet:
    """Documents, queries by id, and by query id the ids of the documents that are relevant.

    Raises:
        InputError: a half has fewer than two queries, so that it has no spread.
    """

    name: str
    documents: Sequence[Document]
    queries: Mapping[str, str]
    relevant: Mapping[str, frozenset[str]]

    def __post_init__(self) -> None:
        held_out = sum(map(is_held_out, self.queries))
        if min(held_out, len(self.queries) - held_out) < 2:
            raise InputError(
                f"{self.name}: found {len(self.queries) - held_out} labelled queries in the tuning half and "
                f"{held_out} in the held-out half, expected at least 2 in each"
            )


def is_held_out(query_id: str) -> bool:
    """Whether a query is of the held-out half: the first bit of the SHA-256 of its id."""
    return hashlib.sha256(query_id.encode()).digest()[0] >= 128


def passage_set(path: Path, limit: int | None = None) -> LabelledSet:
    """The first `limit` questions of a file that `load_qa` reads; relevant are their supporting paragraphs.

    The paragraphs of all these questions are pooled. Questions without a supporting one are left out.

    Raises:
        InputError: as `load_qa` and `LabelledSet`.
    """
    tasks = load_qa("hotpotqa", path, limit=limit)
    splits = tasks.tasks["split"].unique(maintain_order=True)
    labelled = [task for split in splits for task in tasks.split(split) if task.payload["supporting"]]
    return LabelledSet(
        "/".join(part for part in (path.parent.name, path.name.split(".")[0]) if part),
        passage_documents(tasks.passages),
        {task.task_id: task.instruction for task in labelled},
        {task.task_id: frozenset(task.payload["supporting"]) for task in labelled},
    )


def skill_set(bank: SkillBank, tasks: Sequence[Task]) -> LabelledSet:
    """Questions of families that have a talent of their own; relevant are the skills associated with it.

    A family's own talent is the one that bears its name, as in `atlas`. The label says what the bank's author
    thinks belongs to the strategy, not that a skill helps.

    Raises:
        InputError: as `LabelledSet`; also when no task is of such a family.
    """
    talent_of = {task.task_id: bank.talents.get(str(task.payload.get("family"))) for task in tasks}
    return LabelledSet(
        "skills",
        skill_documents(bank),
        {task.task_id: task.instruction for task in tasks if talent_of[task.task_id]},
        {id: frozenset(talent.skills) for id, talent in talent_of.items() if talent},
    )
