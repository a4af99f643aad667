"""Scoring of answers beside the definition written straight down: `python -m benchmarks.scoring 1000000`.

Answers are drawn from a fixed seed for 1,000 invented questions of 12 gold aliases each, as many as TriviaQA has on
average: one in three is an alias in other spelling, one in three shares a word with one, one in three shares none.
The peer is the official SQuAD 1.1 script's logic (normalise both sides anew for each pair, count tokens), which is
what most evaluation code runs; it gets a hundredth of the answers. Both give the same sums, which is asserted.
"""

import random
import re
import string
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from talentrl.environments.scoring import exact_match, f1

QUESTIONS, ALIASES, WORDS = 1000, 12, 20_000
Pair = tuple[str, Sequence[str]]


def make_pairs(number: int) -> list[Pair]:
    """`number` answers, each with the gold answers of its question."""
    draw = random.Random(0)

    def words(count: int) -> str:
        return " ".join(f"w{draw.randrange(WORDS)}" for _ in range(count))

    gold = [[words(draw.randint(1, 4)) for _ in range(ALIASES)] for _ in range(QUESTIONS)]
    pairs = []
    for place in range(number):
        aliases = gold[draw.randrange(QUESTIONS)]
        alias = draw.choice(aliases)
        answers = (f"The {alias.upper()}.", f"{alias.split()[0]} of {words(2)}", words(3))
        pairs.append((answers[place % 3], aliases))
    return pairs


def ours(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Sums of exact match and F1, scored as an episode is: both for one answer, then the next."""
    match = overlap = 0.0
    for answer, gold in pairs:
        match += exact_match(answer, gold)
        overlap += f1(answer, gold)
    return match, overlap


def by_definition(pairs: Sequence[Pair]) -> tuple[float, float]:
    """The same sums, from the definition."""
    return (
        sum(max(float(_plain(answer) == _plain(text)) for text in gold) for answer, gold in pairs),
        sum(max(_plain_f1(answer, text) for text in gold) for answer, gold in pairs),
    )


def _plain(text: str) -> str:
    left_out = set(string.punctuation)
    text = "".join(character for character in text.lower() if character not in left_out)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _plain_f1(answer: str, text: str) -> float:
    found, expected = _plain(answer).split(), _plain(text).split()
    same = sum((Counter(found) & Counter(expected)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(found), same / len(expected)
    return 2 * precision * recall / (precision + recall)


def _timed(score: Callable[[Sequence[Pair]], tuple[float, float]], pairs: Sequence[Pair]) -> tuple[float, float, float]:
    began = time.process_time()
    match, overlap = score(pairs)
    return time.process_time() - began, match, overlap


def main() -> None:
    """Print CPU seconds for all answers and the ratio to the definition on a hundredth of them."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    pairs = make_pairs(number)
    seconds, match, overlap = _timed(ours, pairs)
    print(
        f"ours: {number:,} answers in {seconds:.2f} CPU s, exact match {match / number:.3f}, F1 {overlap / number:.3f}"
    )
    sample = pairs[: max(1, number // 100)]
    few, peer = _timed(ours, sample), _timed(by_definition, sample)
    assert few[1] == peer[1] and abs(few[2] - peer[2]) < 1e-6 * len(sample)
    print(
        f"by definition: {1e6 * peer[0] / len(sample):.1f} µs an answer, ours {1e6 * seconds / number:.2f} µs: "
        f"{peer[0] / len(sample) * number / seconds:.0f}x"
    )


if __name__ == "__main__":
    main()
