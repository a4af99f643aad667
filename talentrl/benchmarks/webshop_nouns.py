"""The nouns of product titles, by spaCy: `python -m talentrl.benchmarks.webshop_nouns PRODUCTS MODEL`.

WebShop's reward compares the nouns of two titles. They are found once, so that nothing needs spaCy afterwards.
Other models than `en_core_web_sm` 3.8 give slightly other nouns, and so now and then another reward.
"""

import json
import sys
from pathlib import Path

from talentrl.benchmarks.webshop_files import NAMES, Catalogue, read_objects
from talentrl.errors import InputError
from talentrl.files import write_text


def write_title_nouns(products: Path, model: str) -> Path:
    """Write ASIN → lower-case nouns and proper nouns of each title, in order, next to `products`.

    Args:
        products: a published product file.
        model: name or folder of a spaCy model of English.

    Raises:
        InputError: spaCy or the model is not installed, or the file is unreadable.
    """
    try:
        import spacy

        tagger = spacy.load(model, disable=["ner", "parser", "lemmatizer"])
    except (ImportError, OSError) as error:
        raise InputError(f"title nouns: expected spaCy with the model {model!r}, found: {error}") from error
    titles = ((item["name"], item["asin"]) for item in read_objects(products))
    nouns = {
        asin: [token.text.lower() for token in title if token.pos_ in ("NOUN", "PROPN")]
        for title, asin in tagger.pipe(titles, as_tuples=True)
    }
    catalogue: Catalogue = "small" if products.name.startswith("items_shuffle_1000") else "full"
    path = products.with_name(NAMES["title nouns"][catalogue][0] + ".json")
    write_text(path, json.dumps(nouns))
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m talentrl.benchmarks.webshop_nouns PRODUCTS MODEL")
    try:
        print(write_title_nouns(Path(sys.argv[1]), sys.argv[2]))
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
