"""Goals: every formula means what first-order logic says, tried against all bindings by brute force."""

import pickle
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from talentrl.environments.alfworld.goal import compile_goal
from talentrl.environments.alfworld.pddl import Problem, read_expression
from talentrl.errors import InputError

TYPES = {"a": "cup", "b": "cup", "c": "pot", "d": "pot"}
CHANGING = {"on": 2, "hot": 1}
FIXED = {"near": 2, "red": 1}
objects, variables = st.sampled_from(sorted(TYPES)), st.sampled_from(["?x", "?y", "?z"])


def facts_of(predicates):
    every = [(name, *things) for name, count in predicates.items() for things in product(TYPES, repeat=count)]
    return st.frozensets(st.sampled_from(every))


def formulas(scope: tuple[str, ...], depth: int):
    """Formulas whose free variables are in `scope`."""
    names = objects | st.sampled_from(scope) if scope else objects
    predicates = {**CHANGING, **FIXED, "=": 2}.items()
    atoms = st.one_of([st.tuples(st.just(name), *[names] * count) for name, count in predicates])
    if not depth:
        return atoms
    inner = formulas(scope, depth - 1)

    def quantified(drawn):
        kind, variable, its_type = drawn
        body = formulas(tuple(sorted({*scope, variable})), depth - 1)
        return body.map(lambda formula: (kind, (variable, "-", its_type), formula))

    quantifiers = st.tuples(st.sampled_from(["exists", "forall"]), variables, st.sampled_from(["cup", "pot", "object"]))
    return st.one_of(
        atoms,
        st.tuples(st.sampled_from(["and", "or", "imply"]), inner, inner),
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("and"), inner, inner, inner),
        quantifiers.flatmap(quantified),
    )


def true_by_definition(formula, facts, scope) -> bool:
    head, *parts = formula
    if head in ("and", "or"):
        return (all if head == "and" else any)(true_by_definition(part, facts, scope) for part in parts)
    if head == "not":
        return not true_by_definition(parts[0], facts, scope)
    if head == "imply":
        return not true_by_definition(parts[0], facts, scope) or true_by_definition(parts[1], facts, scope)
    if head in ("exists", "forall"):
        variable, _, kind = parts[0]
        values = [name for name, its_kind in TYPES.items() if kind in (its_kind, "object")]
        results = [true_by_definition(parts[1], facts, {**scope, variable: value}) for value in values]
        return any(results) if head == "exists" else all(results)
    things = [scope.get(part, part) for part in parts]
    return things[0] == things[1] if head == "=" else (head, *things) in facts


@settings(max_examples=200)
@given(formulas((), 4), facts_of(CHANGING), facts_of(FIXED))
def test_a_formula_holds_where_its_definition_says(formula, now, always):
    goal = compile_goal(Problem(TYPES, always, formula), CHANGING, FIXED, "p")
    assert goal.holds(now) == true_by_definition(formula, now | always, {})
    assert pickle.loads(pickle.dumps(goal)).holds(now) == goal.holds(now)


def compiled(text: str, facts=frozenset()):
    return compile_goal(Problem(TYPES, frozenset(facts), read_expression(text, "p")), CHANGING, FIXED, "p")


def test_two_different_things_in_one_place():
    goal = compiled(
        "(exists (?r - pot ?x - cup) (and (on ?x ?r) (exists (?y - cup) (and (not (= ?x ?y)) (on ?y ?r)))))"
    )
    assert not goal.holds({("on", "a", "c"), ("on", "b", "d")})
    assert goal.holds({("on", "a", "c"), ("on", "b", "c")})


def test_an_inner_variable_hides_an_outer_one_of_its_name():
    goal = compiled("(exists (?x - cup) (and (exists (?x - pot) (hot ?x)) (on ?x a)))")
    assert goal.holds({("hot", "c"), ("on", "b", "a")})
    assert not goal.holds({("hot", "c"), ("on", "c", "a")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(hot ?x)", "expected a variable in scope or an object"),
        ("(hot e)", "expected a variable in scope or an object"),
        ("(cold a)", "expected a connective or a predicate of the game, found 'cold'"),
        ("(hot a b)", "expected 1 parts of 'hot'"),
        ("(not (hot a) (hot b))", "expected 1 parts of 'not'"),
        ("(exists (?x - cup))", "expected 2 parts of 'exists'"),
        ("(exists ?x (hot ?x))", "expected a list of variables"),
        ("(and hot)", "expected .connective"),
        ("((hot a))", "expected .connective"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(InputError, match=rf"^p: section \(:goal …\): {message}"):
        compiled(text)
