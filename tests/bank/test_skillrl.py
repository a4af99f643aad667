"""SkillRL's files: the three published ones import whole, anything repeated or unknown is kept and told."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from talentrl.bank import SkillBank
from talentrl.bank.skillrl import import_skillrl, read_skillrl
from talentrl.errors import InputError

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data")) / "skillbank"


def skill(name: str = "gen_001", **changes) -> dict:
    return {"skill_id": name, "title": "Look Around", "principle": f"Do {name}.", "when_to_apply": "Always."} | changes


def mistake(name: str = "err_001", **changes) -> dict:
    texts = {"description": f"Wrong {name}.", "why_it_happens": "Haste.", "how_to_avoid": "Take time."}
    return {"mistake_id": name, **texts} | changes


def source(**changes) -> dict:
    return {
        "general_skills": [skill()],
        "task_specific_skills": {"heat": [skill("hea_001")], "pick_and_place": [skill("pic_001"), skill("pic_002")]},
        "common_mistakes": [mistake()],
        "metadata": {"source": "made up"},
    } | changes


def write(folder: Path, content: object) -> Path:
    path = folder / "file.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "general", "categories", "mistakes"),
    [
        (
            "alfworld",
            12,
            {"pick-and-place": 5, "look-at-obj-in-light": 5, "clean": 6, "heat": 5, "cool": 5, "examine": 6},
            11,
        ),
        (
            "webshop",
            15,
            {
                "apparel": 6,
                "footwear": 5,
                "home-decor": 6,
                "electronics": 6,
                "accessories": 5,
                "beauty-health": 5,
                "other": 6,
            },
            12,
        ),
        (
            "search",
            10,
            {"direct-retrieval": 5, "multi-hop-reasoning": 5, "entity-attribute-lookup": 5, "comparison": 5},
            11,
        ),
    ],
)
def test_the_published_files_become_whole_banks(tmp_path, name, general, categories, mistakes):
    path = DATA / f"skillrl_{name}.json"
    if not path.is_file():
        pytest.skip(f"no {path}: set TALENTRL_DATA")
    imported = import_skillrl(path, tmp_path / name)
    assert (imported.general, imported.categories, imported.mistakes) == (general, categories, mistakes)
    assert imported.notes == ()
    bank = SkillBank.load(tmp_path / name)  # raises if anything is wrong with it
    assert bank == imported.bank and bank.digest == imported.bank.digest
    assert bank.warnings == ()
    assert len(bank.skills) == general + sum(categories.values()) + mistakes
    assert {talent.id: len(talent.skills) - general for talent in bank.talents.values()} == categories
    # Every text of the file stands in the bank.
    texts = " ".join(f"{each.description} {each.when_to_use} {each.body}" for each in bank.skills.values())
    for entry in entries(json.loads(path.read_text(encoding="utf-8"))):
        for field, text in entry.items():
            assert field.endswith("_id") or " ".join(text.split()) in texts, text


def entries(found: dict) -> list[dict]:
    groups = found.get("task_specific_skills") or found["query_type_skills"]
    return [*found["general_skills"], *(each for group in groups.values() for each in group), *found["common_mistakes"]]


@pytest.mark.parametrize("key", ["task_specific_skills", "query_type_skills"])
def test_entries_become_skills_and_categories_talents(tmp_path, key):
    content = source()
    content[key] = content.pop("task_specific_skills")
    bank = read_skillrl(write(tmp_path, content)).bank
    assert list(bank.skills) == ["err-001", "gen-001", "hea-001", "pic-001", "pic-002"]
    heat = bank.skills["hea-001"]
    assert (heat.description, heat.when_to_use, heat.body) == ("Look Around", "Always.", "Do hea_001.")
    assert heat.task_types == ("heat",)
    assert heat.extra == {"metadata": {"kind": "category", "source_id": "hea_001"}}
    assert bank.skills["gen-001"].extra["metadata"]["kind"] == "general"
    assert bank.talents["pick-and-place"].skills == {"gen-001": 0.3, "pic-001": 1.0, "pic-002": 1.0}
    assert bank.talents["pick-and-place"].description == "Pick and place tasks."


def test_a_mistake_is_a_skill_of_its_own_kind_that_no_talent_lifts(tmp_path):
    bank = read_skillrl(write(tmp_path, source())).bank
    assert bank.skills["err-001"].extra["metadata"]["kind"] == "mistake"
    assert bank.skills["err-001"].body == "Mistake: Wrong err_001.\n\nWhy: Haste.\n\nInstead: Take time."
    assert not any("err-001" in talent.skills for talent in bank.talents.values())


def test_both_key_names_in_one_file_are_read(tmp_path):
    imported = read_skillrl(write(tmp_path, source(query_type_skills={"heat": [skill("hea_002")], "x": []})))
    assert imported.categories == {"heat": 2, "pick-and-place": 2, "x": 0}
    assert any("category 'x' has no skills" in note for note in imported.notes)


def test_repeated_entries_are_kept_and_told(tmp_path):
    again = [skill(), skill("gen_001", principle="Another."), skill("GEN 009", principle="Do gen_001.")]
    imported = read_skillrl(write(tmp_path, source(general_skills=again)))
    assert imported.general == 3
    assert {"gen-001", "gen-001-2", "gen-009"} <= set(imported.bank.skills)
    assert [note.split(": ", 1)[1] for note in imported.notes] == [
        "general_skills[1]: id 'gen-001' is used before, both kept",
        "general_skills[2]: says the same as 'gen-001', both kept",
    ]


def test_unknown_keys_are_kept_with_their_entry_or_told(tmp_path):
    content = source(general_skills=[skill(success_rate=0.5)], version=2)
    imported = read_skillrl(write(tmp_path, content))
    assert imported.bank.skills["gen-001"].extra["metadata"]["other"] == '{"success_rate": 0.5}'
    assert len(imported.notes) == 2
    assert "key 'version' is not known, left out" in imported.notes[0]
    assert "general_skills[0]: keys ['success_rate'] are not known, kept" in imported.notes[1]


def test_a_missing_list_is_told(tmp_path):
    content = source()
    del content["common_mistakes"]
    imported = read_skillrl(write(tmp_path, content))
    assert imported.mistakes == 0
    assert [note for note in imported.notes if note.endswith("there is no 'common_mistakes'")]


def test_a_category_named_none_does_not_become_the_null_talent(tmp_path):
    content = source(task_specific_skills={"none": [skill("a")]})
    assert list(import_skillrl(write(tmp_path, content), tmp_path / "bank").bank.talents) == ["none-2"]
    SkillBank.load(tmp_path / "bank")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ('{"general_skills": [], "general_skills": []}', "a key stands twice"),
        ('{"task_specific_skills": {"a": [{"skill_id": "\\ud800"}]}}', "not JSON"),
        ("[]", "found list, expected an object"),
        ({"general_skills": []}, "expected categories in task_specific_skills or query_type_skills"),
        (source(general_skills={}), "general_skills: found dict, expected a list"),
        (source(common_mistakes=["x"]), r"common_mistakes\[0\]: found str, expected an object"),
        (source(task_specific_skills={"heat": None}), "task_specific_skills.heat: found NoneType, expected a list"),
        (source(general_skills=[skill(principle=" ")]), r"general_skills\[0\].principle: found ' ', expected a text"),
        (source(general_skills=[skill(title=3)]), r"general_skills\[0\].title: found 3, expected a text"),
        (source(general_skills=[skill("???")]), r"skill_id: found '\?\?\?', expected a name"),
        (source(common_mistakes=[mistake(how_to_avoid=None)]), "how_to_avoid: found None, expected a text"),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_written(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        import_skillrl(write(tmp_path, content), tmp_path / "bank")
    assert [path.name for path in tmp_path.iterdir()] == ["file.json"]


def test_a_missing_file_and_a_folder_that_exists_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_skillrl(tmp_path / "none.json")
    (tmp_path / "bank").mkdir()
    with pytest.raises(InputError, match="expected the name of a new folder"):
        import_skillrl(write(tmp_path, source()), tmp_path / "bank")


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
ids = st.text(st.characters(codec="ascii"), max_size=80).map("a{}".format)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    general=st.lists(st.tuples(ids, texts, texts), max_size=3),
    categories=st.dictionaries(ids, st.lists(st.tuples(ids, texts, texts), max_size=2), min_size=1, max_size=3),
)
def test_whatever_the_texts_the_written_bank_loads_as_it_was_read(tmp_path_factory, general, categories):
    def as_skills(found):
        return [skill(name, title=title, principle=principle) for name, title, principle in found]

    folder = tmp_path_factory.mktemp("skillrl")
    content = source(
        general_skills=as_skills(general),
        task_specific_skills={name: as_skills(found) for name, found in categories.items()},
    )
    imported = import_skillrl(write(folder, content), folder / "bank")
    assert SkillBank.load(folder / "bank") == imported.bank
    assert imported.general == len(general)
    assert sorted(imported.categories.values()) == sorted(map(len, categories.values()))
