"""SKILL.md and TALENT.md: the format's rules, and round trips that lose nothing."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from talentrl.bank import BankError, Skill, Talent, read_skill, read_talent, write_skill, write_talent

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / ".." / "shared" / "data"))
EXAMPLES = DATA / "skillbank" / "agentskills_examples"


def put(folder: Path, name: str, file: str, text: str) -> Path:
    path = folder / name / file
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["a" * 65, "-a", "a-", "a--b", "A", "a_b", "é", "a b"])
def test_names_outside_the_rules_are_refused(tmp_path, name):
    path = put(tmp_path, name, "SKILL.md", f"---\nname: {name}\ndescription: d\n---\nBody\n")
    with pytest.raises(BankError, match="expected 1 to 64"):
        read_skill(path)


@pytest.mark.parametrize(
    ("front", "words"),
    [
        ("name: 7\ndescription: d", "`name` is 7, expected text"),
        ("name: x\ndescription: [d]", "`description` is \\['d'\\], expected text"),
        ("name: x\ndescription: d\nmetadata: words", "`metadata` is 'words', expected a mapping"),
        (
            "name: x\ndescription: d\nmetadata:\n  task_types: 3",
            ":5: `metadata.task_types` is 3, expected a list",
        ),
        ("name: x\ndescription: d\nmetadata:\n  when_to_use: [a]", "`metadata.when_to_use` is \\['a'\\]"),
    ],
)
def test_wrong_types_are_refused(tmp_path, front, words):
    with pytest.raises(BankError, match=words):
        read_skill(put(tmp_path, "x", "SKILL.md", f"---\n{front}\n---\nBody\n"))


def test_talent_skills_must_be_a_mapping(tmp_path):
    text = "---\nname: t\ndescription: d\nskills: [find]\n---\nBody\n"
    with pytest.raises(BankError, match=r":4: `skills` is \['find'\], expected a mapping"):
        read_talent(put(tmp_path, "t", "TALENT.md", text))


@pytest.mark.parametrize(("given_as", "line"), [("x y", "task_types: x y\n"), ("[x, y]", "- x\n")])
def test_task_types_are_written_in_the_form_they_had(tmp_path, given_as, line):
    text = f"---\nname: a\ndescription: d\nmetadata:\n  task_types: {given_as}\n---\nBody\n"
    path = put(tmp_path, "a", "SKILL.md", text)
    skill = read_skill(path)
    assert skill.task_types == ("x", "y")
    write_skill(skill, path)
    assert line in path.read_text()
    assert read_skill(path) == skill


names = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,5})?", fullmatch=True)
prose = st.text(st.characters(exclude_categories=["Cs"]), max_size=40).map(str.strip)
bodies = prose.map(lambda text: text.replace("\r", "")).map(str.strip).filter(bool)
words = st.text("abcé世", min_size=1, max_size=5)
unknown = st.dictionaries(st.sampled_from(["license", "x-tool", "größe"]), prose | st.lists(prose) | st.integers())


@settings(deadline=None)
@given(
    name=names,
    description=prose.filter(bool),
    when_to_use=prose,
    task_types=st.lists(words, max_size=3).map(tuple),
    body=bodies,
    extra=unknown,
    metadata=st.dictionaries(st.sampled_from(["author", "version"]), prose, min_size=1),
    as_list=st.booleans(),
)
def test_skill_round_trip(tmp_path_factory, name, extra, metadata, as_list, **fields):
    extra = {**extra, "metadata": metadata} if metadata else extra
    as_list = as_list and bool(fields["task_types"])
    skill = Skill(id=name, name=name, extra=extra, task_types_as_list=as_list, **fields)
    path = tmp_path_factory.getbasetemp() / name / "SKILL.md"
    write_skill(skill, path)
    assert read_skill(path) == skill


@settings(deadline=None)
@given(
    name=names,
    description=prose.filter(bool),
    strategy=bodies,
    skills=st.dictionaries(names, st.floats(0, 1, exclude_min=True), max_size=4),
    extra=unknown,
)
def test_talent_round_trip(tmp_path_factory, name, **fields):
    talent = Talent(id=name, name=name, **fields)
    path = tmp_path_factory.getbasetemp() / name / "TALENT.md"
    write_talent(talent, path)
    assert read_talent(path) == talent


@pytest.mark.skipif(not EXAMPLES.is_dir(), reason=f"no third-party skills under {EXAMPLES}")
def test_third_party_skills_load_and_survive_a_round_trip(tmp_path):
    paths = sorted(EXAMPLES.glob("*/SKILL.md"))
    assert paths
    for path in paths:
        skill = read_skill(path)
        copy = tmp_path / skill.id / "SKILL.md"
        write_skill(skill, copy)
        assert read_skill(copy) == skill
