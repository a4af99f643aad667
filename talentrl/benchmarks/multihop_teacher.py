"""The scripted teacher of HotpotQA, 2WikiMultihopQA and MuSiQue: it plays a talent's strategy, also where it is wrong.

It stands for a reader who has taken a strategy and follows it. Its searches are real; how it reads is not modelled:

- It is given the way to the answer (`multihop_plan`: single-hop questions, triples or titles) for its queries, but a
  name that an earlier hop should find goes into a query only if the passages returned so far hold it.
- It is given the gold answers. It copies one only if that stands in a passage that its strategy reads and is not
  named by the question. A choice between names of the question, or yes and no, it gets right only if its strategy
  decides such questions and the passage about each thing compared was returned. Otherwise it says what its strategy
  would come to: the first name, "no", an intermediate find.

So a talent's outcome on a kind of question says whether its searches bring the evidence and its form of answer fits.
It is an upper bound for a policy that reads imperfectly.
"""

from collections.abc import Callable, Generator, Sequence

from talentrl.benchmarks.multihop_plan import Hop, Plan, bare, capitalised, make_plan, same
from talentrl.benchmarks.taskset import Task
from talentrl.errors import InputError

Play = Generator[str, str, None]
"""Yields assistant texts and is sent observations; the last text holds the answer."""
Lines = list[str]
"""Passages of one or more searches, a line each."""

_DECIDED = ("yes", "no")
_HEAD = 80  # characters of a passage in which it names what it is about
_STEPS = 2  # searches to the measure of one name: "the director's birth date" takes two


def play(task: Task, talent: str) -> Play:
    """Play `talent` on `task`: yield `<search>` and at last `<answer>` texts, be sent `<information>` blocks.

    `bridge` and `compare` search up to four times on these sets, `superlative` three times, the others once or twice.

    Raises:
        InputError: the talent has no script, or the task is not of a multi-hop set (raised by this call, not later).
    """
    if talent not in TALENTS:
        raise InputError(f"teacher: unknown talent {talent!r}, expected one of {sorted(TALENTS)}")
    return TALENTS[talent](make_plan(task))


def _search(query: str) -> Generator[str, str, Lines]:
    """One search; its passages."""
    observation = yield f"<search>{' '.join(query.split())}</search>"
    lines = observation.replace("<information>", "\n").replace("</information>", "\n").splitlines()
    return [line for line in lines if line.strip()]


def _answer(text: str, working: str = "") -> str:
    return f"{working} <answer>{text}</answer>".lstrip()


def _standing(spans: Sequence[str], lines: Lines) -> str | None:
    """The first of `spans` that a passage holds."""
    return next((span for span in spans if any(same(span, line) for line in lines)), None)


def _copied(plan: Plan, lines: Lines) -> str | None:
    """A gold answer that can be copied from `lines`."""
    asked = [text for text in plan.gold if text.lower() not in _DECIDED and not same(text, plan.question)]
    return _standing(asked, lines)


def _is_read(hop: Hop, lines: Lines) -> bool:
    """Whether a passage states what `hop` is for, or is about the thing that it asks of."""
    about = bool(hop.article) and any(same(bare(hop.article), line[:_HEAD]) for line in lines)
    return about or _standing(hop.found, lines) is not None


def _first_name(lines: Lines) -> str | None:
    return next((name for line in lines for name in capitalised(line)), None)


def _follow(plan: Plan, places: Sequence[int]) -> Generator[str, str, tuple[list[Lines], list[str]]]:
    """Search the hops at `places` in turn; the passages of each, and what was read out of them."""
    found: dict[int, str] = {}
    passages: list[Lines] = []
    for place in places:
        hop = plan.hops[place]
        query = hop.query
        for before in hop.rests_on:
            query = query.replace(f"#{before + 1}", found.get(before, plan.name(0)))
        passages.append((yield from _search(query)))
        if read := _standing(hop.found, passages[-1]):
            found[place] = read
    return passages, [found[place] for place in places if place in found]


def _lookup(plan: Plan) -> Play:
    lines = yield from _search(f"{plan.name(0)} {plan.fact}")
    yield _answer(_copied(plan, lines) or _standing(plan.hops[0].found, lines) or _first_name(lines) or plan.name(0))


def _bridge(plan: Plan) -> Play:
    passages, found = yield from _follow(plan, range(len(plan.hops)))
    working = " ".join(f"{text}." for text in found[:-1])
    last = passages[-1]
    answer = _copied(plan, last) or next(iter(found[::-1]), None) or _first_name(last) or plan.name(0)
    yield _answer(answer, working)


def _decide(plan: Plan, lines: Lines) -> str:
    """The name of the question that wins, once all that is compared was read; else the first."""
    named = next((text for text in plan.gold if same(text, plan.question)), None)
    return named if named and all(_is_read(hop, lines) for hop in plan.last_hops) else plan.name(0)


def _compare(plan: Plan) -> Play:
    lines: Lines = []
    values = []
    for place in range(2):
        name = plan.name(place)
        if chain := plan.chain(name)[:_STEPS]:
            passages, found = yield from _follow(plan, chain)
            lines += [line for part in passages for line in part]
            values += [f"{name}: {found[-1]}."] if found else []
        else:
            lines += yield from _search(f"{name} {plan.fact}")
    yield _answer(_decide(plan, lines), " ".join(values))


def _superlative(plan: Plan) -> Play:
    lines: Lines = []
    for place in range(3):
        lines += yield from _search(f"{plan.name(place)} {plan.fact}")
    yield _answer(_decide(plan, lines))


def _intersect(plan: Plan) -> Play:
    first = yield from _search(f"{plan.name(0)} {plan.fact}")
    second = yield from _search(f"{plan.name(1)} {plan.fact}" if len(plan.names) > 1 else plan.question)
    answer = _copied(plan, first)
    if answer is None or _standing([answer], second) is None:
        names = [name for line in first for name in capitalised(line) if not same(name, plan.question)]
        answer = _standing(names, second)
    yield _answer(answer or plan.name(0))


def _count(plan: Plan) -> Play:
    lines = yield from _search(f"{plan.name(0)} {plan.fact}")
    items = list(dict.fromkeys(capitalised(lines[0]))) if lines else []
    yield _answer(str(len(items)))


def _verify(plan: Plan) -> Play:
    lines = yield from _search(f"{' '.join(plan.names[:2])} {plan.fact}")
    decided = next((text.lower() for text in plan.gold if text.lower() in _DECIDED), "yes")
    yield _answer(decided if all(_is_read(hop, lines) for hop in plan.last_hops) else "no")


def _careful(plan: Plan) -> Play:
    lines = yield from _search(plan.question)
    main = _first_name(lines) or plan.name(0)
    lines = (yield from _search(main)) + lines
    yield _answer(_copied(plan, lines) or main)


TALENTS: dict[str, Callable[[Plan], Play]] = {
    "lookup": _lookup,
    "bridge": _bridge,
    "compare": _compare,
    "superlative": _superlative,
    "intersect": _intersect,
    "count": _count,
    "verify": _verify,
    "careful": _careful,
}
