"""Exact match and F1 of short answers, as SQuAD defines them (Rajpurkar et al. 2016), over all gold answers.

Only the answer is scored, never the prompt around it. What was normalised is remembered, since the gold answers of a
task are scored against many times.
"""

import re
import string
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@lru_cache(2**15)
def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and surplus white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str | None, gold: Iterable[str]) -> float:
    """1.0 if the normalised answer equals a normalised gold answer, else 0.0; no answer scores 0.0."""
    return float(answer is not None and normalise(answer) in _gold(tuple(gold)).texts)


def f1(answer: str | None, gold: Iterable[str]) -> float:
    """The best token-overlap F1 of the answer with a gold answer, in [0, 1]; no answer scores 0.0."""
    text = normalise(answer or "")
    prepared = _gold(tuple(gold))
    if text and text in prepared.texts:
        return 1.0
    found = text.split()
    sharing = [words for word in set(found) for words in prepared.by_word.get(word, ())]
    return max((2 * _common(found, words) / (len(found) + len(words)) for words in sharing), default=0.0)


class _Gold(NamedTuple):
    """Gold answers of a question, normalised."""

    texts: frozenset[str]
    by_word: dict[str, list[list[str]]]
    """Word -> the answers that hold it, as lists of words: an answer that shares no word costs nothing."""


@lru_cache(2**15)
def _gold(gold: tuple[str, ...]) -> _Gold:
    texts = frozenset(map(normalise, gold))
    by_word: dict[str, list[list[str]]] = {}
    for words in map(str.split, texts):
        for word in set(words):
            by_word.setdefault(word, []).append(words)
    return _Gold(texts, by_word)


def _common(found: list[str], expected: list[str]) -> int:
    """How many words two answers share, each as often as it is in both."""
    return sum(min(found.count(word), expected.count(word)) for word in set(expected))
