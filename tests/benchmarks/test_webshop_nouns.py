"""Making the file of title nouns, with a stand-in for spaCy: what is kept, where it goes, what is refused."""

import json
import sys
from types import SimpleNamespace

import pytest

from talentrl.benchmarks.webshop_files import find_file
from talentrl.benchmarks.webshop_nouns import write_title_nouns
from talentrl.errors import InputError

KINDS = {"Shirt": "NOUN", "Acme": "PROPN", "red": "ADJ", "12": "NUM"}


class Tagger:
    """Tags words by `KINDS`."""

    def pipe(self, texts, as_tuples):
        assert as_tuples
        for text, asin in texts:
            yield [SimpleNamespace(text=word, pos_=KINDS[word]) for word in text.split()], asin


@pytest.fixture
def spacy(monkeypatch):
    def load(model, disable):
        if model != "small":
            raise OSError("no such model")
        return Tagger()

    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load))


@pytest.mark.parametrize(("name", "catalogue"), [("items_shuffle_1000.json", "small"), ("items_shuffle.json", "full")])
def test_nouns_are_kept_in_order_in_lower_case_with_repeats_where_the_loader_looks(spacy, tmp_path, name, catalogue):
    products = [{"asin": "A", "name": "Acme red Shirt 12 Shirt"}, {"asin": "B", "name": "red"}]
    (tmp_path / name).write_text(json.dumps(products))
    path = write_title_nouns(tmp_path / name, "small")
    assert json.loads(path.read_text()) == {"A": ["acme", "shirt", "shirt"], "B": []}
    assert find_file(tmp_path, "title nouns", catalogue) == path


def test_a_missing_model_is_one_clear_line(spacy, tmp_path):
    with pytest.raises(InputError, match="expected spaCy with the model 'huge', found: no such model"):
        write_title_nouns(tmp_path / "items_shuffle.json", "huge")


def test_missing_spacy_is_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(InputError, match="expected spaCy with the model 'small'"):
        write_title_nouns(tmp_path / "items_shuffle.json", "small")
