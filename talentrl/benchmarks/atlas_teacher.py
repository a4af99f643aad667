"""The scripted teacher of `atlas`: it plays a talent's stated strategy on any task, also where that is wrong.

It stands for an agent that has taken a strategy and believes in it. It knows the question (through the
payload's parse of it: names, fact asked, claim, direction) and what the observations say, never the answers.
Success of a talent on a family is therefore measured, not declared.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from talentrl.benchmarks.atlas_passages import Fact, read_fact, read_number
from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError

Play = Generator[str, str, None]
"""Yields assistant texts and is sent observations; the last text holds the answer."""

FACT_WORDS = {
    "calling_code": "calling code",
    "largest_city": "largest city",
}
DESCRIPTIONS = {"capital": "{} capital of", "country": "{} country", "largest_city": "{} largest city of"}


@dataclass(frozen=True)
class Question:
    """What a reader takes from the words of a question; fields as in `atlas_families.Question`."""

    text: str
    names: tuple[str, ...]
    relation: str
    via: str | None
    claim: str | None
    direction: str

    @property
    def word(self) -> str:
        """The fact asked, as it stands in a search."""
        return FACT_WORDS.get(self.relation, self.relation)

    def name(self, position: int) -> str:
        """The name at `position`; if the question has fewer names, they start again."""
        return self.names[position % len(self.names)]


def play(task: Task, talent: str, opening: str = "") -> Play:
    """Play `talent` on `task`: yield `<search>` and at last `<answer>` texts, be sent `<information>` blocks.

    `opening` is empty: a question says all.

    Raises:
        InputError: the talent has no script, or the task is not of `atlas` (raised by this call, not later).
    """
    if talent not in TALENTS:
        raise InputError(f"teacher: unknown talent {talent!r}, expected one of {sorted(TALENTS)}")
    return TALENTS[talent](_question(task))


def _question(task: Task) -> Question:
    payload: dict[str, Any] = task.payload
    missing = [key for key in ("entities", "relation", "via", "claim", "direction") if key not in payload]
    if missing:
        raise InputError(f"teacher: task {task.task_id!r}: payload keys {missing} are missing, expected an atlas task")
    return Question(
        task.instruction,
        tuple(payload["entities"]),
        payload["relation"],
        payload["via"],
        payload["claim"],
        payload["direction"] or "max",
    )


def _search(query: str) -> Generator[str, str, list[Fact]]:
    """One search; the facts that its passages state."""
    observation = yield f"<search>{query}</search>"
    lines = observation.replace("<information>", "\n").replace("</information>", "\n").splitlines()
    return [fact for fact in map(read_fact, lines) if fact]


def _answer(text: str, working: str = "") -> str:
    return f"{working} <answer>{text}</answer>".lstrip()


def _value(facts: list[Fact], name: str, relation: str) -> str | None:
    """What `facts` say about `relation` of `name`."""
    return next((fact.value for fact in facts if (fact.subject, fact.relation) == (name, relation)), None)


def _other_side(facts: list[Fact], name: str) -> str | None:
    """What the first passage ties to `name`: its value, or its subject where `name` is the value."""
    return next((fact.subject if fact.value == name else fact.value for fact in facts), None)


def _name_for(facts: list[Fact], described: str) -> str | None:
    """The first name in the passages that is not the description itself."""
    names = (name for fact in facts for name in (fact.subject, *fact.values))
    return next((name for name in names if name[0].isupper() and name != described), None)


def _first(*texts: str | None) -> str:
    return next(text for text in texts if text)


def _lookup(question: Question) -> Play:
    name = question.name(0)
    facts = yield from _search(f"{name} {question.word}")
    yield _answer(_first(_value(facts, name, question.relation), _other_side(facts, name), name))


def _bridge(question: Question) -> Play:
    described = question.name(0)
    facts = yield from _search(DESCRIPTIONS[question.via].format(described) if question.via else described)
    name = _first(_linked(facts, described, question.via), _name_for(facts, described), described)
    facts = yield from _search(f"{name} {question.word}")
    yield _answer(_first(_value(facts, name, question.relation), _other_side(facts, name), name))


def _linked(facts: list[Fact], place: str, via: str | None) -> str | None:
    """The country that `via` ties to `place`."""
    if via == "country":
        return _value(facts, place, via)
    return next((fact.subject for fact in facts if fact.relation == via and fact.value == place), None)


def _best_of(question: Question, number: int) -> Play:
    """Measure `number` names in turn; answer with the one that wins."""
    measured: dict[str, float] = {}
    values = []
    for position in range(number):
        name = question.name(position)
        facts = yield from _search(f"{name} {question.word}")
        stated = _value(facts, name, question.relation) or ""
        value = read_number(stated)
        if value is not None:
            measured[name] = value
            values.append(f"{name} {stated}.")
    choose = max if question.direction == "max" else min
    yield _answer(choose(measured, key=measured.__getitem__) if measured else question.name(0), " ".join(values))


def _compare(question: Question) -> Play:
    yield from _best_of(question, 2)


def _superlative(question: Question) -> Play:
    yield from _best_of(question, 3)


def _neighbours(name: str) -> Generator[str, str, list[str]]:
    """Search the list of `name` (a border list: there is no other); a wrong list is better than none."""
    facts = yield from _search(f"{name} borders")
    lists = [fact.value for fact in facts if fact.relation == "borders"]
    found = _value(facts, name, "borders") or next(iter(lists), "")
    return [item for item in found.split(", ") if item]


def _intersect(question: Question) -> Play:
    first = yield from _neighbours(question.name(0))
    second = yield from _neighbours(question.name(1))
    common = next((name for name in first if name in second), None)
    alone = first[: first.index(common)] if common else first
    working = [f"{name} no." for name in alone] + ([f"{common} yes."] if common else [])
    yield _answer(common or next(iter(first + second), "none"), " ".join(working))


def _count(question: Question) -> Play:
    items = yield from _neighbours(question.name(0))
    working = [f"{number} {item}." for number, item in enumerate(items, start=1)]
    yield _answer(str(len(items)), " ".join(working))


def _verify(question: Question) -> Play:
    name = question.name(0)
    facts = yield from _search(f"{name} {question.word}")
    stated = _value(facts, name, question.relation)
    # Without a claim, the question is taken to ask about the second name, or whether there is such a fact.
    claim = question.claim or (question.names[1] if len(question.names) > 1 else stated)
    yield _answer("yes" if stated and claim in stated.split(", ") else "no")


def _careful(question: Question) -> Play:
    facts = yield from _search(question.text)
    found = [name for fact in facts for name in (fact.subject, *fact.values)]
    # What is described has a name that the question lacks; anything else is named by the question.
    main = next((name for name in found if (name in question.names) != bool(question.via)), question.name(0))
    facts = (yield from _search(main)) + facts
    yield _answer(_first(_value(facts, main, question.relation), *(fact.value for fact in facts), main))


TALENTS: dict[str, Callable[[Question], Play]] = {
    "lookup": _lookup,
    "bridge": _bridge,
    "compare": _compare,
    "superlative": _superlative,
    "intersect": _intersect,
    "count": _count,
    "verify": _verify,
    "careful": _careful,
}
