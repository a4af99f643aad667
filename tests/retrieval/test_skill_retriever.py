"""Skills found under a talent: the prior lifts associated skills and filters nothing."""

import math

import pytest

from talentrl.bank import Skill, SkillBank, Talent
from talentrl.errors import InputError
from talentrl.retrieval.embedded import EmbeddedIndex
from talentrl.retrieval.skills import SkillRetriever, skill_documents, skill_text


def skill(name, description, when_to_use=""):
    return Skill(name, name, description, when_to_use, body="Steps of the skill.")


SKILLS = [
    skill("name-the-city", "State which city the question asks for", "A city is described"),
    skill("read-a-number", "Copy a number from a passage exactly"),
    skill("compare-numbers", "Decide which of two numbers is larger", "Two things are compared"),
    skill("stop-early", "Answer as soon as the evidence is enough"),
]
BANK = SkillBank(
    {one.id: one for one in SKILLS},
    {
        "compare": Talent("compare", "compare", "Which has more", "Look up both.", {"compare-numbers": 1.0}),
        "careful": Talent("careful", "careful", "When unsure", "Check.", {"stop-early": 0.5}),
    },
)
QUERY = "Which city is the capital of Italy?"


@pytest.fixture
def index(tmp_path, encoder):
    return EmbeddedIndex.build(tmp_path, skill_documents(BANK), encoder)


def test_a_talent_lifts_its_skills_and_filters_nothing(index):
    retriever = SkillRetriever(index, BANK, prior_weight=5.0)
    flat, lifted = retriever.retrieve(QUERY, None, 4), retriever.retrieve(QUERY, "compare", 4)
    assert flat[0].id == "name-the-city"
    assert lifted[0].id == "compare-numbers"
    assert lifted[0].prior == 1.0
    assert {hit.id for hit in lifted} == {hit.id for hit in flat} == set(BANK.skills)
    assert all(hit.prior == 0 for hit in flat)


def test_zero_prior_weight_is_flat(index):
    retriever = SkillRetriever(index, BANK, prior_weight=0.0)
    assert retriever.retrieve(QUERY, "compare", 3) == retriever.retrieve(QUERY, None, 3)


def test_hard_filter_backfills_by_similarity(index):
    hits = SkillRetriever(index, BANK, prior_weight=math.inf).retrieve(QUERY, "careful", 2)
    assert [hit.id for hit in hits] == ["stop-early", "name-the-city"]


def test_retrieve_many_equals_single_requests(index):
    retriever = SkillRetriever(index, BANK, prior_weight=1.0)
    requests = [(QUERY, "compare"), (QUERY, None), ("larger number", "careful")]
    assert retriever.retrieve_many(requests, 2) == [retriever.retrieve(*request, 2) for request in requests]


def test_unknown_talent_names_the_nearest(index):
    retriever = SkillRetriever(index, BANK, prior_weight=1.0)
    with pytest.raises(InputError, match=r"no talent 'comparison' in the bank: nearest are \['compare'"):
        retriever.retrieve(QUERY, "comparison", 2)


def test_index_of_another_bank_is_refused(index):
    smaller = SkillBank({"stop-early": SKILLS[3]}, {})
    with pytest.raises(InputError, match="holds 4 skills, the bank 1: rebuild the index"):
        SkillRetriever(index, smaller, 1.0)
    renamed = SkillBank({f"x-{one.id}": skill(f"x-{one.id}", one.description) for one in SKILLS}, {})
    with pytest.raises(InputError, match="no document 'x-compare-numbers'"):
        SkillRetriever(index, renamed, 1.0)


def test_text_of_a_skill(index):
    assert skill_text(SKILLS[1]) == "read-a-number\nCopy a number from a passage exactly"
    assert skill_text(SKILLS[0], with_body=True).endswith("A city is described\nSteps of the skill.")
