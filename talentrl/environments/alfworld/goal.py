"""First-order formulas over facts: compiled once a problem, evaluated after every change.

A quantified variable is a slot of one list, the binding, so a nested quantifier may reuse a name. `exists` narrows
the objects of a variable at compile time by the conjuncts that never change, and checks every other conjunct as
soon as its last variable is bound. Formulas are made of plain objects, so they can be pickled.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from talentrl.environments.alfworld.pddl import Expression, Fact, Problem, read_typed
from talentrl.errors import InputError

Binding = list[str]
"""Slot → object. The constants of the formula fill the first slots."""

_CONNECTIVES = {"and": None, "or": None, "not": 1, "=": 2, "imply": 2, "exists": 2, "forall": 2}
"""Connectives and how many parts they have, None for any number."""


class Formula(Protocol):
    """A closed or open formula."""

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """Whether the formula is true where `facts` hold; its free variables are read from `binding`."""
        ...


@dataclass(frozen=True, slots=True)
class Atom:
    """A predicate of variables and constants."""

    predicate: str
    slots: tuple[int, ...]

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """See `Formula.holds`."""
        return (self.predicate, *[binding[slot] for slot in self.slots]) in facts


@dataclass(frozen=True, slots=True)
class Fixed:
    """A predicate that never changes: the lists of objects of which it is true."""

    relation: frozenset[tuple[str, ...]]
    slots: tuple[int, ...]

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """See `Formula.holds`."""
        return tuple(binding[slot] for slot in self.slots) in self.relation


@dataclass(frozen=True, slots=True)
class Equal:
    """Two names for one object."""

    left: int
    right: int

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """See `Formula.holds`."""
        return binding[self.left] == binding[self.right]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    body: Formula

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """See `Formula.holds`."""
        return not self.body.holds(facts, binding)


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts; true of none."""

    parts: tuple[Formula, ...]

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """See `Formula.holds`."""
        return all(part.holds(facts, binding) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """Any of the parts; false of none."""

    parts: tuple[Formula, ...]

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """See `Formula.holds`."""
        return any(part.holds(facts, binding) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Exists:
    """Some objects, one a variable, make all conjuncts true."""

    slots: tuple[int, ...]
    domains: tuple[tuple[str, ...], ...]
    """Objects to try, by variable."""
    checks: tuple[tuple[Formula, ...], ...]
    """Conjuncts to check before any variable is bound, after the first, after the second, …"""

    def holds(self, facts: Collection[Fact], binding: Binding) -> bool:
        """See `Formula.holds`."""
        return self._search(0, facts, binding)

    def _search(self, bound: int, facts: Collection[Fact], binding: Binding) -> bool:
        if not all(check.holds(facts, binding) for check in self.checks[bound]):
            return False
        if bound == len(self.slots):
            return True
        for name in self.domains[bound]:
            binding[self.slots[bound]] = name
            if self._search(bound + 1, facts, binding):
                return True
        return False


@dataclass(frozen=True)
class Goal:
    """A closed formula."""

    formula: Formula
    binding: tuple[str, ...]
    """The constants in their slots; the slots of variables are empty."""

    def holds(self, facts: Collection[Fact]) -> bool:
        """Whether the goal is reached where `facts` hold."""
        return self.formula.holds(facts, list(self.binding))


def compile_goal(problem: Problem, changing: Mapping[str, int], fixed: Mapping[str, int], where: str) -> Goal:
    """Compile the goal of `problem`. The type `object` stands for all objects, as PDDL has it.

    Args:
        problem: gives the objects of a type, and the facts that never change.
        changing: predicates whose facts may change → their number of objects: `Goal.holds` is given those facts.
        fixed: the other predicates, likewise; their facts are as at first.
        where: names the problem in messages.

    Raises:
        InputError: a predicate is unknown, it or a connective has the wrong number of parts, or a name is neither a
            variable of a quantifier around it nor an object of the problem.
    """
    compiler = _Compiler(problem, changing, fixed, where)
    formula = compiler.compile(problem.goal, {})
    return Goal(formula, tuple(compiler.binding))


class _Compiler:
    """Compiles one formula. A scope maps the names of variables to slots."""

    def __init__(self, problem: Problem, changing: Mapping[str, int], fixed: Mapping[str, int], where: str) -> None:
        self.binding: Binding = []
        self._problem = problem
        self._changing = changing
        self._parts = {**_CONNECTIVES, **changing, **fixed}
        self._where = where

    def compile(self, expression: Expression, scope: dict[str, int]) -> Formula:
        """The formula that `expression` says."""
        if isinstance(expression, str) or not expression or not isinstance(expression[0], str):
            raise self._error("(connective …) or (predicate …)", expression)
        head, parts = expression[0], expression[1:]
        if head not in self._parts:
            raise self._error("a connective or a predicate of the game", head)
        if self._parts[head] not in (None, len(parts)):
            raise self._error(f"{self._parts[head]} parts of {head!r}", expression)
        match head:
            case "and" | "or":
                compiled = tuple(self.compile(part, scope) for part in parts)
                return And(compiled) if head == "and" else Or(compiled)
            case "not":
                return Not(self.compile(parts[0], scope))
            case "imply":
                return Or((Not(self.compile(parts[0], scope)), self.compile(parts[1], scope)))
            case "=":
                return Equal(self._slot(parts[0], scope), self._slot(parts[1], scope))
            case "exists":
                return self._exists(parts[0], parts[1], scope)
            case "forall":
                return Not(self._exists(parts[0], ("not", parts[1]), scope))
        slots = tuple(self._slot(part, scope) for part in parts)
        if head in self._changing:
            return Atom(head, slots)
        return Fixed(frozenset(fact[1:] for fact in self._problem.facts if fact[0] == head), slots)

    def _exists(self, variables: Expression, body: Expression, scope: dict[str, int]) -> Formula:
        scope = dict(scope)
        domains: dict[int, list[str]] = {}
        while True:  # exists directly in exists is one exists of all variables
            for name, kind in self._variables(variables):
                scope[name] = self._new_slot()
                objects = self._problem.types.items()
                domains[scope[name]] = [item for item, its_kind in objects if kind in (its_kind, "object")]
            if not (isinstance(body, tuple) and body[:1] == ("exists",) and len(body) == 3):
                break
            variables, body = body[1:]
        compiled = self.compile(body, scope)
        conjuncts = []
        for conjunct in _conjuncts(compiled):
            own = domains.keys() & _slots(conjunct)
            if isinstance(conjunct, Fixed) and len(own) == 1 and not self._is_open(conjunct, own):
                (slot,) = own
                domains[slot] = [name for name in domains[slot] if conjunct.holds((), self._with(slot, name))]
            else:
                conjuncts.append(conjunct)
        slots = sorted(domains, key=lambda slot: len(domains[slot]))
        checks: list[list[Formula]] = [[] for _ in range(len(slots) + 1)]
        for conjunct in conjuncts:
            own = _slots(conjunct)
            checks[max((place + 1 for place, slot in enumerate(slots) if slot in own), default=0)].append(conjunct)
        return Exists(tuple(slots), tuple(tuple(domains[slot]) for slot in slots), tuple(map(tuple, checks)))

    def _variables(self, variables: Expression) -> list[tuple[str, str]]:
        if isinstance(variables, str):
            raise self._error("a list of variables", variables)
        return read_typed(variables, self._where)

    def _slot(self, name: Expression, scope: dict[str, int]) -> int:
        if isinstance(name, str) and name in scope:
            return scope[name]
        if not isinstance(name, str) or name not in self._problem.types:
            raise self._error("a variable in scope or an object of (:objects …)", name)
        self.binding.append(name)
        return len(self.binding) - 1

    def _new_slot(self) -> int:
        self.binding.append("")
        return len(self.binding) - 1

    def _is_open(self, conjunct: Fixed, own: Collection[int]) -> bool:
        """Whether it has variables beside `own`: of a quantifier further out."""
        return any(slot not in own and not self.binding[slot] for slot in conjunct.slots)

    def _with(self, slot: int, name: str) -> Binding:
        return [*self.binding[:slot], name, *self.binding[slot + 1 :]]

    def _error(self, expected: str, found: Expression) -> InputError:
        return InputError(f"{self._where}: section (:goal …): expected {expected}, found {found!r:.80}")


def _conjuncts(formula: Formula) -> list[Formula]:
    if isinstance(formula, And):
        return [conjunct for part in formula.parts for conjunct in _conjuncts(part)]
    return [formula]


def _slots(formula: Formula) -> set[int]:
    """Slots that a formula reads, its own variables included."""
    match formula:
        case Atom(_, slots) | Fixed(_, slots):
            return set(slots)
        case Equal(left, right):
            return {left, right}
        case Not(body):
            return _slots(body)
        case And(parts) | Or(parts):
            return {slot for part in parts for slot in _slots(part)}
        case Exists(_, _, checks):
            return {slot for parts in checks for part in parts for slot in _slots(part)}
    raise TypeError(f"not a formula: {formula!r}")
