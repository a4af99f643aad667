"""The tag parser: what counts as a talent or an action, and that no text breaks it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.policy.parser import ACTION_STOP, ROUTING_STOP, Action, parse_action, parse_talent

NAMES = ["talent", "think", "search", "answer", "action", "information"]
TAGS = [mark.format(name) for name in NAMES for mark in ("<{}>", "</{}>", "<{} >", "</{}", "<{}")]
WHOLE = [f"<{name}>x</{name}>" for name in NAMES]
pieces = st.one_of(
    st.sampled_from(TAGS), st.sampled_from(WHOLE), st.text(max_size=8), st.sampled_from(["<", ">", "/", " ", "\n"])
)
texts = st.lists(pieces, max_size=14).map("".join)


@given(texts)
def test_any_text_can_be_parsed(text):
    talent, action = parse_talent(text), parse_action(text)
    assert talent is None or (talent == talent.strip() and talent and not set("<>") & set(talent))
    if action is not None:
        assert action.kind in ("search", "answer", "action")
        assert action.argument == action.argument.strip() != ""
        assert f"<{action.kind}>" in text
        assert f"</{action.kind}>" in text
        assert f"<{action.kind}>" not in action.argument


@pytest.mark.parametrize("name", ["information", "think"])
@given(inside=texts, before=st.text(st.characters(exclude_characters="<>")), closed=st.booleans())
def test_nothing_inside_passages_or_thoughts_counts(name, inside, before, closed):
    inside = inside.replace(f"</{name}>", "")
    text = f"{before}<{name}>{inside}" + (f"</{name}>" if closed else "")
    assert parse_action(text) is None
    assert parse_talent(text) is None


@given(texts, st.sampled_from(["search", "answer", "action"]), st.from_regex(r"[a-z]([a-z ]*[a-z])?", fullmatch=True))
def test_an_action_after_any_passages_is_found(inside, kind, argument):
    inside = inside.replace("</information>", "")
    text = f"<information>{inside}</information><{kind}>{argument}</{kind}>"
    assert parse_action(text) == Action(kind, argument)


@pytest.mark.parametrize(
    ("text", "talent"),
    [
        ("<talent>bridge</talent>", "bridge"),
        ("I choose <talent> bridge \n</talent> now", "bridge"),
        ("<talent>one</talent><talent>two</talent>", "one"),
        ("<think><talent>one</talent></think><talent>two</talent>", "two"),
        ("<talent><talent>one</talent></talent>", "one"),
        ("<information><talent>bridge</talent></information>", None),
        ("<talent>bridge", None),
        ("bridge</talent>", None),
        ("<talent></talent>", None),
        ("<talent>  </talent>", None),
        ("<talent>a<b</talent>", None),
        ("<Talent>bridge</Talent>", None),
        ("<talent >bridge</talent>", None),
        ("", None),
    ],
)
def test_talent(text, talent):
    assert parse_talent(text) == talent


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<search>capital of France</search>", Action("search", "capital of France")),
        ("<answer> Paris\n</answer>", Action("answer", "Paris")),
        ("<action>open door</action>", Action("action", "open door")),
        ("<think>hm</think> so <search>x</search>", Action("search", "x")),
        ("<think><answer>no</answer></think><answer>yes</answer>", Action("answer", "yes")),
        ("<search>one</search><answer>two</answer>", Action("search", "one")),
        ("<search></search><answer>two</answer>", Action("answer", "two")),
        ("<search>a<search>b</search>", Action("search", "b")),
        ("<search><answer>x</answer></search>", Action("search", "<answer>x</answer>")),
        ("<answer>5 < 7 > 3</answer>", Action("answer", "5 < 7 > 3")),
        ("<search>two\nlines</search>", Action("search", "two\nlines")),
        ("<se<think></think>arch>x</search>", None),
        ("<search>x</answer>", None),
        ("<search>x", None),
        ("x</search>", None),
        ("<search> \n</search>", None),
        ("<think><search>x</search>", None),
        ("<information><search>x</search></information>", None),
        ("<information>a\nb <answer>x</answer>", None),
        ("<information><answer>no</answer></information><answer>yes</answer>", Action("answer", "yes")),
        ("<search>x</search><information><answer>y</answer></information>", Action("search", "x")),
        ("<SEARCH>x</SEARCH>", None),
        ("<search/>", None),
        ("Paris", None),
        ("", None),
    ],
)
def test_action(text, action):
    assert parse_action(text) == action


def test_generation_stops_where_the_parser_can_read():
    for stop in (*ROUTING_STOP, *ACTION_STOP):
        name = re.fullmatch(r"</(\w+)>", stop).group(1)
        assert (parse_talent if name == "talent" else parse_action)(f"<{name}>x{stop}")


@pytest.mark.timeout(5)
@pytest.mark.parametrize("piece", ["<search>", "<think>", "<search><answer>", "<talent>", "<", "<search>x</answer>"])
def test_long_malformed_texts_take_no_long_time(piece):
    assert parse_action(piece * 20_000) is None
    assert parse_talent(piece * 20_000) is None
