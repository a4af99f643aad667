"""What a multi-hop item says about the way to its answer, as a plan of single searches.

MuSiQue gives a decomposition into single-hop questions, 2WikiMultihopQA the triples that lead to the answer, HotpotQA
the titles of the supporting paragraphs. All become `Hop`s: a query, in which "#1" stands for what hop 1 found, and the
texts that a reader takes from its passages.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError

_SMALL_WORD = re.compile(
    r"an?|the|of|in|on|at|to|for|from|by|with|as|and|or|than|that|this|is|are|was|were|be|been|do|does|did|has|have|had"
    r"|who|whom|whose|what|which|when|where|why|how|many|much|its?|their|his|her|both|same|also",
    re.IGNORECASE,
)
_CAPITALS = re.compile(r"[A-Z][\w'’.-]*(?:\s+(?:(?:of|the|de|and|in|for)\s+)*[A-Z0-9][\w'’.-]*)*")
_REFERENCE = re.compile(r"#(\d+)")


@dataclass(frozen=True)
class Hop:
    """One search of a plan."""

    query: str
    found: tuple[str, ...]
    """Texts one of which the search is for; empty where the item does not state it."""
    article: str
    """Title of the passage that states it."""

    @property
    def rests_on(self) -> tuple[int, ...]:
        """Places (from 0) of the hops whose finds are in the query."""
        return tuple(int(number) - 1 for number in _REFERENCE.findall(self.query))


@dataclass(frozen=True)
class Plan:
    """A question, the names in its words, the fact that it asks, and the hops to its answer."""

    question: str
    names: tuple[str, ...]
    fact: str
    hops: tuple[Hop, ...]
    gold: tuple[str, ...]

    def name(self, place: int) -> str:
        """The name at `place`; if the question has fewer names, they start again."""
        return self.names[place % len(self.names)]

    @property
    def last_hops(self) -> tuple[Hop, ...]:
        """The hops whose finds no other hop needs: what the answer is read from or decided by."""
        needed = {place for hop in self.hops for place in hop.rests_on}
        return tuple(hop for place, hop in enumerate(self.hops) if place not in needed)

    def chain(self, start: str) -> list[int]:
        """Places of the hops that begin at the name `start`, and of those that rest on them."""
        places: list[int] = []
        for place, hop in enumerate(self.hops):
            if (not hop.rests_on and same(start, hop.query)) or any(before in places for before in hop.rests_on):
                places.append(place)
        return places


def make_plan(task: Task) -> Plan:
    """The plan of a task of `hotpotqa`, `2wikimultihopqa` or `musique`.

    Raises:
        InputError: the payload has neither a decomposition nor evidences nor supporting titles.
    """
    payload, question = task.payload, task.instruction
    titles: list[str] = payload.get("supporting_titles") or []
    if steps := payload.get("decomposition"):
        hops = [_step(step) for step in steps]
        titles = [hop.article for hop in hops]
        fact = _content(_REFERENCE.sub("", steps[-1]["question"].split(">>")[-1]))
        starts = [step["question"].split(">>")[0] for step in steps if ">>" in step["question"]]
    elif triples := payload.get("evidences"):
        hops = _triples(triples, titles, question)
        fact, starts = triples[-1][1], [triple[0] for triple in triples]
    elif titles:
        names = _names([bare(title) for title in titles], question)
        fact, starts = _content(question, names), []
        hops = _titles(titles, question, fact, compared=payload.get("type") == "comparison")
    else:
        raise InputError(
            f"teacher: task {task.task_id!r}: the payload has none of 'decomposition', 'evidences', "
            f"'supporting_titles', expected a multi-hop task"
        )
    names = _names([*map(bare, titles), *map(str.strip, starts)], question)
    return Plan(question, names, fact or question, tuple(hops), task.answers)


def bare(title: str) -> str:
    """A title without the addition that tells namesakes apart: "Rush (band)" → "Rush"."""
    return re.sub(r"\s*\([^()]*\)$", "", title) or title


def same(span: str, text: str) -> bool:
    """Whether `span` stands in `text` as whole words, in any case."""
    return bool(span) and bool(re.search(rf"(?<!\w){re.escape(span)}(?!\w)", text, re.IGNORECASE))


def capitalised(text: str) -> list[str]:
    """The phrases of a text that look like names, in order."""
    return [match.rstrip(".'’-") for match in _CAPITALS.findall(text) if not _SMALL_WORD.fullmatch(match)]


def _names(candidates: Iterable[str], question: str) -> tuple[str, ...]:
    """Those candidates that the question names, in its order; else what looks like names; else all of it."""
    named = {name.lower(): name for name in candidates if same(name, question)}
    longest = [name for low, name in named.items() if not any(low != other and same(low, other) for other in named)]
    if longest:
        return tuple(sorted(longest, key=lambda name: question.lower().index(name.lower())))
    words = question.split(" ", 1)[-1]  # the first word has a capital in any case
    return tuple(capitalised(words)) or (question,)


def _content(text: str, without: Sequence[str] = ()) -> str:
    """The words of `text` that say something, except the names `without`."""
    for name in without:
        text = re.sub(re.escape(name), " ", text, flags=re.IGNORECASE)
    return " ".join(word for word in re.findall(r"\w[\w'’-]*", text) if not _SMALL_WORD.fullmatch(word))


def _step(step: dict[str, Any]) -> Hop:
    query = " ".join(step["question"].replace(">>", " ").split())
    return Hop(query, (step["answer"],), step["title"] or "")


def _triples(triples: Sequence[Sequence[str]], titles: Sequence[str], question: str) -> list[Hop]:
    """A hop for each triple, which rests on the earlier one whose object is its subject."""
    objects = [triple[2] for triple in triples]
    hops = []
    for place, (subject, relation, found) in enumerate(triples):
        article = titles[place] if len(titles) == len(triples) else subject
        before = next((i for i, name in enumerate(objects[:place]) if name == subject), None)
        # Evidence and question may spell a name otherwise; an agent has the question's.
        name = next((name for name in (bare(article), subject) if same(name, question)), subject)
        hops.append(Hop(f"{name if before is None else f'#{before + 1}'} {relation}", (found,), article))
    return hops


def _titles(titles: Sequence[str], question: str, fact: str, compared: bool) -> list[Hop]:
    """Hops from titles alone: each on its own when compared; else from the named one to the other."""
    named = [title for title in titles if same(bare(title), question)]
    others = [title for title in titles if title not in named]
    if compared or not others:
        return [Hop(f"{bare(title)} {fact}", (), title) for title in titles]
    first = f"{bare(named[0])} {fact}" if named else question
    return [Hop(first, tuple(map(bare, others)), named[0] if named else others[0]), Hop(f"#1 {fact}", (), others[-1])]
