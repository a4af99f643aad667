"""The bank: validation as a whole, digest, the compiled file."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from talentrl.bank import (
    BankError,
    SkillBank,
    Talent,
)
from talentrl.errors import InputError

SKILL = "---\nname: {0}\ndescription: Does {0}.\n---\n\nDo {0}.\n"
TALENT = "---\nname: {0}\ndescription: Plays {0}.\nskills:\n{1}---\n\nPlay {0}.\n"


def put(folder: Path, kind: str, name: str, text: str) -> Path:
    path = folder / kind / name / ("SKILL.md" if kind == "skills" else "TALENT.md")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path):
    for name in ("find", "read"):
        put(tmp_path, "skills", name, SKILL.format(name))
    put(tmp_path, "talents", "plan", TALENT.format("plan", "  find: 1.0\n  read: 0.5\n"))
    return tmp_path


def test_load_gives_sorted_skills_and_talents(folder):
    bank = SkillBank.load(folder)
    assert list(bank.skills) == ["find", "read"]
    assert bank.skills["find"].body == "Do find."
    assert bank.talents["plan"] == Talent("plan", "plan", "Plays plan.", "Play plan.", {"find": 1.0, "read": 0.5})
    assert bank.warnings == ()


def test_all_problems_are_listed_at_once_with_file_and_line(folder):
    put(folder, "skills", "copy", SKILL.format("find"))
    put(folder, "skills", "bare", "---\nname: bare\ndescription: d\n---\n\n")
    put(folder, "skills", "mute", "---\nname: mute\n---\nBody\n")
    put(folder, "skills", "Bad--", "---\nname: Bad--\ndescription: d\n---\nBody\n")
    put(folder, "skills", "colon", "---\nname: colon\ndescription: Use: it\n---\nBody\n")
    (folder / "skills" / "void").mkdir()
    weights = "  find: 0\n  read: 1.5\n  ghost: 0.5\n  bare: true\n  mute: .nan\n  copy: '1'\n  colon: 1\n"
    put(folder, "talents", "odd", TALENT.format("odd", weights))
    with pytest.raises(BankError) as caught:
        SkillBank.load(folder)
    skills, odd = folder / "skills", folder / "talents" / "odd" / "TALENT.md"
    rule = "expected a number above 0 and at most 1"
    expected = [
        f"{skills}/Bad--/SKILL.md:2: `name` is 'Bad--', expected 1 to 64 of a-z",
        f"{skills}/bare/SKILL.md:5: the body is empty",
        f"{skills}/colon/SKILL.md:3: a colon and a space inside unquoted text; put the whole value in quotes",
        f"{skills}/copy/SKILL.md:2: `name` is 'find', expected the folder's 'copy'",
        f"{skills}/find/SKILL.md:2: id 'find' is already used by {skills}/copy/SKILL.md",
        f"{skills}/mute/SKILL.md:1: `description` is missing or empty",
        f"{skills}/void/SKILL.md:1: cannot be read",
        f"{odd}:5: weight of skill 'find' is 0, {rule}",
        f"{odd}:6: weight of skill 'read' is 1.5, {rule}",
        f"{odd}:8: weight of skill 'bare' is True, {rule}",
        f"{odd}:9: weight of skill 'mute' is nan, {rule}",
        f"{odd}:10: weight of skill 'copy' is '1', {rule}",
        f"{odd}:7: talent 'odd' names skill 'ghost', which is not in the bank",
    ]
    assert len(caught.value.problems) == len(expected)
    for found, start in zip(caught.value.problems, expected, strict=True):
        assert found.startswith(start)
    assert all(problem in str(caught.value) for problem in caught.value.problems)


def test_an_association_to_a_broken_skill_is_not_called_dangling(folder):
    (folder / "skills" / "find" / "SKILL.md").write_text("no front matter")
    with pytest.raises(BankError) as caught:
        SkillBank.load(folder)
    assert len(caught.value.problems) == 1


def test_missing_and_empty_folders_are_problems(tmp_path):
    with pytest.raises(BankError, match="no such folder, expected a skill bank"):
        SkillBank.load(tmp_path / "none")
    (tmp_path / "talents").mkdir()
    with pytest.raises(BankError) as caught:
        SkillBank.load(tmp_path)
    assert caught.value.problems == [
        f"{tmp_path}/skills: no such folder, expected one folder with SKILL.md for each entry",
        f"{tmp_path}/talents: empty, expected at least one folder with TALENT.md",
    ]


def test_over_long_description_loads_with_a_warning(folder):
    put(folder, "skills", "long", f"---\nname: long\ndescription: {'d' * 1025}\n---\nBody\n")
    bank = SkillBank.load(folder)
    assert len(bank.skills["long"].description) == 1025
    assert len(bank.warnings) == 1
    assert bank.warnings[0].endswith("SKILL.md:3: `description` has 1025 characters, more than 1024")


def test_digest_ignores_layout_and_line_endings(folder):
    digest = SkillBank.load(folder).digest
    assert len(digest) == 16
    skill = folder / "skills" / "find" / "SKILL.md"
    skill.write_bytes(b"---\r\ndescription: 'Does find.'\r\nname: \"find\"\r\n---\r\nDo find.\r\n\r\n")
    talent = folder / "talents" / "plan" / "TALENT.md"
    talent.write_text("---\nskills: {read: 0.50, find: 1}\nname: plan\ndescription: Plays plan.\n---\nPlay plan.")
    assert SkillBank.load(folder).digest == digest


def test_digest_changes_with_any_content(folder):
    bank = SkillBank.load(folder)
    skill, talent = bank.skills["find"], bank.talents["plan"]
    skills = [
        replace(skill, description="x"),
        replace(skill, when_to_use="x"),
        replace(skill, task_types=("x",)),
        replace(skill, body="x"),
        replace(skill, extra={"license": "MIT"}),
    ]
    talents = [
        replace(talent, description="x"),
        replace(talent, strategy="x"),
        replace(talent, skills={"find": 1.0, "read": 0.6}),
        replace(talent, extra={"license": "MIT"}),
    ]
    digests = {SkillBank({**bank.skills, "find": other}, bank.talents).digest for other in skills}
    digests |= {SkillBank(bank.skills, {"plan": other}).digest for other in talents}
    assert len(digests | {bank.digest}) == len(skills) + len(talents) + 1


def test_compiled_bank_round_trip(folder, tmp_path):
    put(folder, "skills", "extra", "---\nname: extra\ndescription: né\nnested: {a: [1, .inf]}\n---\nBody 世\n")
    bank = SkillBank.load(folder)
    path = tmp_path / "out" / "bank.json"
    bank.write_json(path)
    again = SkillBank.read_json(path)
    assert again == bank
    assert again.digest == bank.digest
    assert math.isinf(again.skills["extra"].extra["nested"]["a"][1])
    assert [entry.name for entry in path.parent.iterdir()] == ["bank.json"]


def test_broken_or_tampered_compiled_bank_is_refused(folder, tmp_path):
    path = tmp_path / "bank.json"
    bank = SkillBank.load(folder)
    bank.write_json(path)
    whole = path.read_text(encoding="utf-8")
    empty = {"format": "talentrl-bank-1", "digest": "0" * 16}
    broken = {
        whole.replace("Do find.", "Do harm."): "does not match its digest",
        whole.replace(bank.digest, "0" * 16): "does not match its digest",
        whole.replace("talentrl-bank-1", "talentrl-bank-9"): "expected 'talentrl-bank-1'",
        whole[: len(whole) // 2]: "not a compiled skill bank",
        json.dumps(empty): "no 'skills'",
        "[]": "not a compiled skill bank",
        "": "not a compiled skill bank",
        "[" * 100_000: "not a compiled skill bank",
    }
    for text, words in broken.items():
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=words) as caught:
            SkillBank.read_json(path)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        SkillBank.read_json(tmp_path / "none.json")


def test_the_id_of_the_null_talent_is_reserved(folder):
    put(folder, "talents", "none", TALENT.format("none", "  find: 1.0\n"))
    with pytest.raises(BankError, match=r"none/TALENT.md:2: talent id 'none' is reserved"):
        SkillBank.load(folder)
