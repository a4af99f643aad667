"""Reading PDDL: what it says, and a clear refusal of all that is not whole."""

import pytest
from alfworld_samples import KITCHEN, problem
from hypothesis import given
from hypothesis import strategies as st

from talentrl.environments.alfworld.pddl import read_expression, read_problem, read_typed
from talentrl.errors import InputError

SMALL = """(define (problem P) (:objects a B - Cup c)  ; (not this
    (:init (= (distance a b) 3) (On A b) (empty c)) (:goal (on b a)))"""
names = st.text("abcxyz019_-?:=", min_size=1, max_size=6)
expressions = st.recursive(names, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=30)


def text_of(expression, space=" ") -> str:
    if isinstance(expression, str):
        return expression
    return "(" + space.join(text_of(part, space) for part in expression) + space + ")"


def test_a_small_problem():
    found = read_problem(SMALL, "p")
    assert found.types == {"a": "cup", "b": "cup", "c": "object"}
    assert found.facts == {("on", "a", "b"), ("empty", "c")}
    assert found.goal == ("on", "b", "a")


@given(st.lists(expressions, max_size=5).map(tuple), st.sampled_from([" ", "\n\t", " ; ) (\n"]))
def test_what_is_written_is_read_back(expression, space):
    assert read_expression(text_of(expression, space), "p") == expression
    assert read_expression(text_of(expression, space).upper(), "p") == expression


@given(st.lists(st.tuples(st.lists(names.filter(lambda name: name != "-"), min_size=1, max_size=3), names)))
def test_typed_lists_are_read_back(groups):
    flat = tuple(symbol for members, kind in groups for symbol in (*members, "-", kind))
    assert read_typed(flat, "p") == [(name, kind) for members, kind in groups for name in members]


@given(st.integers(0, len(KITCHEN.rstrip()) - 1))
def test_a_text_that_is_cut_off_anywhere_is_refused(length):
    with pytest.raises(InputError, match=r"^kitchen\.pddl: "):
        read_problem(KITCHEN[:length], "kitchen.pddl")


@given(st.text(max_size=60))
def test_no_text_at_all_breaks_the_reader(text):
    try:
        read_problem(text, "p")
    except InputError as error:
        assert str(error).startswith("p: ") and "\n" not in str(error)
    else:
        raise AssertionError(f"read {text!r} as a problem")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected one"),
        ("(define (problem p))", r"section \(:objects …\) is missing"),
        ("(domain x)", r"expected \(define"),
        (KITCHEN + ")", "closes nothing"),
        (KITCHEN + KITCHEN, "found 2 expressions"),
        (KITCHEN[: KITCHEN.index("(:goal")] + ")", r"section \(:goal …\) is missing"),
        (problem(goal=""), r"section \(:goal …\): expected one formula, found 0"),
        (problem(goal="()"), r"section \(:goal …\): expected one formula"),
        (problem(goal="apple"), r"section \(:goal …\): expected one formula"),
        (
            problem(["(opened nowhere)"]),
            r"section \(:init …\): expected objects .* found \['nowhere'\]",
        ),
        (problem(["opened"]), r"section \(:init …\): expected \(predicate object …\), found 'opened'"),
        (problem(["(not (opened Fridge_bar_1))"]), r"section \(:init …\): expected objects"),
        (SMALL.replace("- Cup c", "- Cup a - pot c"), "object 'a' has the types 'cup' and 'pot'"),
        (SMALL.replace("- Cup c", "- (either cup pot)"), "expected 'name - type'"),
        (SMALL.replace("a B - Cup c", "- Cup"), "expected 'name - type'"),
        (SMALL.replace("a B - Cup c", "a -"), "expected 'name - type'"),
        (SMALL.replace("a B - Cup c", "(a) - cup"), "expected a name"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(InputError, match=f"^here: .*{message}"):
        read_problem(text, "here")
