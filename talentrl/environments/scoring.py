"""Exact match and F1 of short answers, as SQuAD defines them (Rajpurkar et al. 2016), over all gold answers.

Only the answer is scored, never the prompt around it.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and surplus white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str | None, gold: Iterable[str]) -> float:
    """1.0 if the normalised answer equals a normalised gold answer, else 0.0; no answer scores 0.0."""
    return float(answer is not None and normalise(answer) in {normalise(text) for text in gold})


def f1(answer: str | None, gold: Iterable[str]) -> float:
    """The best token-overlap F1 of the answer with a gold answer, in [0, 1]; no answer scores 0.0."""
    return max((_overlap(normalise(answer or "").split(), normalise(text).split()) for text in gold), default=0.0)


def _overlap(found: list[str], expected: list[str]) -> float:
    common = sum((Counter(found) & Counter(expected)).values())
    return 2 * common / (len(found) + len(expected)) if common else 0.0
