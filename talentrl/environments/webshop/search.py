"""Product search: BM25 as Lucene computes it, over the text that WebShop indexes.

The published index is Lucene's with Anserini's defaults: k1 0.9, b 0.4, English analysis (words, no possessives, no
stop words, Porter stems). Here bm25s does the arithmetic; unlike Lucene it does not round document lengths, so close
scores may change places. Products of equal score keep their order in the catalogue.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import bm25s
import numpy as np
import Stemmer
from bm25s.tokenization import Tokenized

from talentrl.environments.webshop.catalogue import Product

HITS = 50
K1, B = 0.9, 0.4

# Words as Unicode breaks them (UAX 29), for text in alphabets: marks inside a word or number do not end it.
_WORD = re.compile(r"\w+(?:(?:(?<=\d)[.,'](?=\d)|(?<=[^\W\d_])[.:'’](?=[^\W\d_]))\w+)*")
_POSSESSIVE = re.compile(r"['’]s$")
_STOP_WORDS = """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these they this
    to was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())


class Analyser:
    """Text to index terms; the terms of a word are remembered."""

    def __init__(self) -> None:
        self._stem: Callable[[str], str] = Stemmer.Stemmer("porter").stemWord
        self._terms: dict[str, str] = {}

    def __call__(self, text: str) -> list[str]:
        """The terms of `text`, in order, with repeats."""
        return [term for term in map(self._term, _WORD.findall(text.lower())) if term]

    def _term(self, word: str) -> str:
        term = self._terms.get(word)
        if term is None:
            base = _POSSESSIVE.sub("", word)
            term = "" if base in STOP_WORDS else self._stem(base)
            if len(self._terms) < 1 << 20:
                self._terms[word] = term
        return term


class ProductSearch:
    """The products that fit a text best."""

    def __init__(self, index: bm25s.BM25) -> None:
        self._index = index
        self._analyse = Analyser()

    @classmethod
    def build(cls, products: Iterable[Product]) -> "ProductSearch":
        """Index `products`; a hit is a position among them."""
        analyse, vocabulary, ids = Analyser(), {"": 0}, []
        for product in products:
            terms = analyse(indexed_text(product)) or [""]  # no query has this term, and no length is zero
            ids.append([vocabulary.setdefault(term, len(vocabulary)) for term in terms])
        index = bm25s.BM25(k1=K1, b=B, method="lucene")
        index.index(Tokenized(ids, vocabulary), show_progress=False)
        return cls(index)

    def save(self, folder: Path) -> None:
        """Write the index into `folder`."""
        self._index.save(folder, show_progress=False)

    @classmethod
    def load(cls, folder: Path) -> "ProductSearch":
        """Open an index that `save` wrote; its arrays are mapped, not read."""
        index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        # As plain arrays: they stay mapped, and slicing them is several times as fast.
        index.scores = {name: np.asarray(v) if isinstance(v, np.memmap) else v for name, v in index.scores.items()}
        return cls(index)

    def __call__(self, query: str) -> tuple[int, ...]:
        """Positions of the best products for `query`, best first, at most `HITS`; all share a term with it."""
        terms = [term for term in self._analyse(query) if term in self._index.vocab_dict]
        if not terms:
            return ()
        scores = self._index.get_scores(terms)
        found = np.flatnonzero(scores)
        if len(found) > HITS:
            least = np.partition(scores[found], -HITS)[-HITS]
            found = found[scores[found] >= least]
        best = found[np.argsort(-scores[found], kind="stable")]
        return tuple(best[:HITS].tolist())

    def __getstate__(self) -> bm25s.BM25:
        return self._index

    def __setstate__(self, state: bm25s.BM25) -> None:
        self.__init__(state)  # type: ignore[misc]


def indexed_text(product: Product) -> str:
    """What is searched: title, description, first feature, and every option with its values."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join([product.title, product.description, product.features[0] if product.features else "", options])
