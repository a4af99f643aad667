"""A PDDL problem as typed objects, the facts that hold at first, and a goal.

Only what a game needs is read: `:objects`, `:init` and `:goal`. PDDL is case-insensitive, so all is lower case.
Numeric facts (`(= (distance …) …)`) are costs for a planner and are left out.
"""

import re
from dataclasses import dataclass

from talentrl.errors import InputError

Expression = str | tuple["Expression", ...]
"""A symbol, or a list of expressions."""
Fact = tuple[str, ...]
"""A predicate and its arguments."""

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_SECTIONS = (":objects", ":init", ":goal")


@dataclass(frozen=True)
class Problem:
    """What a PDDL problem says."""

    types: dict[str, str]
    """Object → its type, `object` where none is given."""
    facts: frozenset[Fact]
    """What holds at first."""
    goal: Expression
    """A first-order formula."""


def read_problem(text: str, where: str) -> Problem:
    """Read the problem in `text`; `where` names it in messages.

    Raises:
        InputError: the text is cut off or not PDDL, a section is missing, an object has two types, a fact names an
            unknown object, or there is no goal.
    """
    expression = read_expression(text, where)
    if expression[:1] != ("define",):
        raise InputError(f"{where}: expected (define (problem …) …), found {text.strip()[:40]!r}")
    sections = {part[0]: part[1:] for part in expression[1:] if isinstance(part, tuple) and part}
    for name in _SECTIONS:
        if name not in sections:
            raise InputError(f"{where}: section ({name} …) is missing, found {sorted(map(str, sections))}")
    types: dict[str, str] = {}
    for name, kind in read_typed(sections[":objects"], where):
        if types.setdefault(name, kind) != kind:
            raise InputError(f"{where}: object {name!r} has the types {types[name]!r} and {kind!r}, expected one")
    if len(sections[":goal"]) != 1 or not isinstance(sections[":goal"][0], tuple) or not sections[":goal"][0]:
        raise InputError(f"{where}: section (:goal …): expected one formula, found {len(sections[':goal'])}")
    return Problem(types, frozenset(_facts(sections[":init"], types, where)), sections[":goal"][0])


def read_expression(text: str, where: str) -> tuple[Expression, ...]:
    """The one list that `text` holds.

    Raises:
        InputError: parentheses do not match, or there is nothing in them.
    """
    open_lists: list[list[Expression]] = [[]]
    for token in _TOKEN.findall(_COMMENT.sub("", text.lower())):
        if token == "(":
            open_lists.append([])
        elif token == ")":
            if len(open_lists) == 1:
                raise InputError(f"{where}: found a ) that closes nothing, expected matching parentheses")
            closed = tuple(open_lists.pop())
            open_lists[-1].append(closed)
        else:
            open_lists[-1].append(token)
    if len(open_lists) > 1:
        raise InputError(f"{where}: the text ends inside {len(open_lists) - 1} open parentheses: is it cut off?")
    (found,) = open_lists
    if len(found) != 1 or not isinstance(found[0], tuple):
        raise InputError(f"{where}: expected one (define …), found {len(found)} expressions")
    return found[0]


def read_typed(expressions: tuple[Expression, ...], where: str) -> list[tuple[str, str]]:
    """A list such as `a b - cup c` as pairs of name and type: `[("a", "cup"), ("b", "cup"), ("c", "object")]`.

    Raises:
        InputError: a hyphen has no name before it or no type behind it, or a name is a list.
    """
    pairs: list[tuple[str, str]] = []
    waiting: list[str] = []
    symbols = iter(expressions)
    for symbol in symbols:
        if symbol == "-":
            kind = next(symbols, None)
            if not waiting or not isinstance(kind, str):
                raise InputError(f"{where}: typed list: expected 'name - type', found {waiting[-1:]} - {kind!r}")
            pairs += [(name, kind) for name in waiting]
            waiting = []
        elif isinstance(symbol, str):
            waiting.append(symbol)
        else:
            raise InputError(f"{where}: typed list: expected a name, found the list {symbol!r:.60}")
    return pairs + [(name, "object") for name in waiting]


def _facts(expressions: tuple[Expression, ...], types: dict[str, str], where: str) -> list[Fact]:
    facts: list[Fact] = []
    for expression in expressions:
        if isinstance(expression, tuple) and expression and expression[0] == "=":
            continue
        if not isinstance(expression, tuple) or not expression:
            raise InputError(f"{where}: section (:init …): expected (predicate object …), found {expression!r:.60}")
        predicate, *names = expression
        unknown = [name for name in names if name not in types]
        if not isinstance(predicate, str) or unknown:
            raise InputError(
                f"{where}: section (:init …): expected objects of (:objects …), found {unknown} in {expression!r:.80}"
            )
        facts.append(expression)  # type: ignore[arg-type]
    return facts
