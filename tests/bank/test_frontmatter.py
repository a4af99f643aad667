"""Pages with front matter: delimiters, line numbers, clear errors, and round trips that lose nothing."""

import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from talentrl.bank.frontmatter import BankError, read_page, render_page


def page_of(folder: Path, text: str | bytes):
    path = folder / "SKILL.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return read_page(path)


def test_only_whole_lines_delimit(tmp_path):
    page = page_of(tmp_path, "---\nname: a\ndescription: before --- after\n---\n\nBody\n\n---\n\nMore\n")
    assert page.problems == []
    assert page.values["description"] == "before --- after"
    assert page.body == "Body\n\n---\n\nMore"


def test_keys_carry_their_line_in_the_file(tmp_path):
    page = page_of(tmp_path, "---\nname: a\n# note\nskills:\n  x: 1.0\n  y: 0.5\n---\nBody\n")
    assert page.lines[("name",)] == 2
    assert page.lines[("skills", "y")] == 6
    assert page.body_line == 8


def test_byte_order_mark_and_windows_line_endings_are_harmless(tmp_path):
    text = "---\nname: a\ndescription: d\n---\n\nOne\nTwo\n"
    plain = page_of(tmp_path, text)
    windows = page_of(tmp_path, b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert (windows.values, windows.body, windows.problems) == (plain.values, plain.body, [])


def test_text_that_looks_like_a_date_or_a_word_for_no_stays_text(tmp_path):
    page = page_of(tmp_path, "---\nday: 2024-01-31\nanswer: no\n---\nBody\n")
    assert page.values == {"day": "2024-01-31", "answer": "no"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("name: a\n", 1, "expected a first line `---`"),
        ("", 1, "expected a first line `---`"),
        ("---\nname: a\n", 1, "not closed"),
        ("---\n---\nBody\n", 1, "front matter is empty"),
        ("---\n- a\n---\nBody\n", 2, "not a mapping"),
        ("---\nname: a\ndescription: Use when: asked\n---\nBody\n", 3, "put the whole value in quotes"),
        ("---\nname: a\nname: b\n---\nBody\n", 3, "duplicate key"),
        ("---\nname: [a\n---\nBody\n", 3, "not valid YAML"),
        ("---\nname: &a [*a]\n---\nBody\n", 1, "not usable"),
        ("---\nname: !!binary aGk=\n---\nBody\n", 1, "a value of type bytes"),
        (b"---\nname: \xff\n---\nBody\n", 2, "not UTF-8"),
        (b"---\nname: \x00\n---\nBody\n", 1, "not usable"),
    ],
)
def test_broken_page_is_one_clear_line(tmp_path, text, line, words):
    page = page_of(tmp_path, text)
    assert len(page.problems) == 1
    assert page.problems[0].startswith(f"{tmp_path / 'SKILL.md'}:{line}: ")
    assert words in page.problems[0]
    assert "\n" not in page.problems[0]
    with pytest.raises(BankError, match=r"SKILL\.md"):
        page.raise_problems()


def test_missing_file_is_a_problem(tmp_path):
    assert "cannot be read (No such file or directory)" in read_page(tmp_path / "SKILL.md").problems[0]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
keys = st.text(string.ascii_letters + "é世_-", min_size=1, max_size=12)
scalars = texts | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.none()
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=3), max_leaves=6)
ambiguous = st.sampled_from(["no", "On", "1_000", "12:30:00", "2024-01-31", "1e-6", "0x1f", "null", "~", "---", "a: b"])


@settings(deadline=None)
@given(front=st.dictionaries(keys, values | ambiguous, min_size=1, max_size=5), body=texts)
def test_round_trip_keeps_every_value_and_the_key_order(tmp_path_factory, front, body):
    folder = tmp_path_factory.getbasetemp()
    first = page_of(folder, render_page(front, body))
    assert first.problems == []
    assert first.values == front
    assert list(first.values) == list(front)
    again = page_of(folder, render_page(first.values, first.body))
    assert (again.values, again.body) == (first.values, first.body)


@settings(deadline=None)
@given(text=texts | ambiguous)
def test_rendered_text_is_the_same_text_to_a_yaml_1_1_reader(text):
    front = render_page({"key": text}, "Body").split("\n---\n")[0].removeprefix("---\n")
    assert yaml.safe_load(front) == {"key": text}


@settings(deadline=None)
@given(noise=st.binary(max_size=60) | st.text("-\n: #'\"[]{}&*!|>%@a", max_size=40).map(str.encode))
def test_reading_never_raises(tmp_path_factory, noise):
    folder = tmp_path_factory.getbasetemp()
    for data in (noise, b"---\n" + noise + b"\n---\nBody\n"):
        page = page_of(folder, data)
        assert page.values or page.problems
