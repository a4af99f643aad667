"""The starter bank for ALFWorld: complete, connected and inside its word budgets."""

from pathlib import Path

import pytest

from talentrl.bank import SkillBank

FOLDER = Path(__file__).parents[2] / "banks" / "alfworld"
TYPES = {"place", "clean", "heat", "cool", "lamp", "pair"}
FALL_BACKS = {"sweep", "hidden"}


@pytest.fixture(scope="module")
def bank():
    return SkillBank.load(FOLDER)


def words(text: str) -> int:
    return len(text.split())


def test_it_has_a_talent_for_each_type_of_task_and_two_for_any(bank):
    assert set(bank.talents) == TYPES | FALL_BACKS
    assert len(bank.skills) >= 20
    assert bank.warnings == ()


def test_readme_tells_the_counts_and_the_licence(bank):
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"{len(bank.skills)} skills and {len(bank.talents)} talents" in readme
    assert "Licence: Apache-2.0" in readme


def test_every_talent_has_five_to_seven_skills_of_varied_weight(bank):
    for talent in bank.talents.values():
        assert 5 <= len(talent.skills) <= 7, talent.id
        assert max(talent.skills.values()) == 1.0, talent.id
        assert len(set(talent.skills.values())) >= 3, talent.id


def test_every_skill_serves_the_types_of_the_talents_that_name_it_and_is_named(bank):
    for skill in bank.skills.values():
        assert set(skill.task_types) <= TYPES and skill.task_types, skill.id
    for talent in bank.talents.values():
        for skill in talent.skills:
            assert talent.id in {*bank.skills[skill].task_types, *FALL_BACKS}, (talent.id, skill)
    assert {skill for talent in bank.talents.values() for skill in talent.skills} == set(bank.skills)


def test_texts_keep_their_word_budgets(bank):
    for skill in bank.skills.values():
        assert 1 <= words(skill.description) <= 12, skill.id
        assert 1 <= words(skill.body) <= 28, skill.id
        assert 1 <= words(skill.when_to_use) <= 20, skill.id
    for talent in bank.talents.values():
        assert 1 <= words(talent.description) <= 8, talent.id
        assert 1 <= words(talent.strategy) <= 30, talent.id


def test_no_text_holds_a_tag_of_the_conversation(bank):
    for skill in bank.skills.values():
        assert "<" not in skill.description + skill.when_to_use + skill.body, skill.id
    for talent in bank.talents.values():
        assert "<" not in talent.description + talent.strategy, talent.id


def test_no_two_skills_say_the_same(bank):
    bodies = {skill.body for skill in bank.skills.values()}
    descriptions = {skill.description for skill in bank.skills.values()}
    assert len(bodies) == len(descriptions) == len(bank.skills)
