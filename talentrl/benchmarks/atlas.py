"""`atlas`: questions with a search, made from public country and city facts, in seven families.

Passages state one fact each and are the same for every seed. The split of a question is decided by its
answer: every name, currency, language and demonym belongs to one split, so no such answer of a test task is
the answer of a training or dev task. Answers of a closed class (yes and no, numbers) are exempt; there the
country or city asked about decides. Other names in a question may come from any split. Some phrasings are
held out: half of the dev tasks use those of dev, half of the test tasks those of test, no other task does.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from random import Random

import polars as pl

from talentrl.benchmarks import atlas_phrasings as phrasings
from talentrl.benchmarks.atlas_families import FAMILIES, Atlas, Question
from talentrl.benchmarks.atlas_passages import all_facts, render, with_article
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, TASK_SCHEMA, TaskSet
from talentrl.errors import InputError


def build_atlas(seed: int, train: int = 1200, dev: int = 200, test: int = 400) -> TaskSet:
    """The task set of `seed`, with that many tasks a split, families in equal shares.

    The same seed gives byte-identical frames. A task's payload holds the `Question` fields that a teacher may
    read (`family`, `entities`, `relation`, `via`, `claim`, `direction`), `phrasing`, `held_out` and
    `supporting`, the ids of the passages that the answer needs.

    Raises:
        InputError: a size is negative, all are zero, or a family has too few questions for a size.
    """
    sizes = {"train": train, "dev": dev, "test": test}
    if min(sizes.values()) < 0 or not any(sizes.values()):
        raise InputError(f"atlas sizes: expected numbers >= 0 and one > 0, found {sizes}")
    atlas = Atlas.load()
    split_of = assign_splits(atlas, seed, sizes)
    families = {}
    for family, questions in FAMILIES.items():
        random = Random(f"{seed} {family}")
        families[family] = _by_split(questions(atlas, random), split_of, random)
    rows = []
    for split, size in sizes.items():
        tasks = []
        for index, (family, pools) in enumerate(families.items()):
            share = size // len(families) + (index < size % len(families))
            tasks += _phrase(pools[split], share, f"family {family!r}", split)
        Random(f"{seed} {split}").shuffle(tasks)
        rows += [_row(split, number, *task) for number, task in enumerate(tasks)]
    facts = all_facts()
    passages = [(fact.passage_id, fact.subject, render(fact)) for fact in facts]
    return TaskSet(
        pl.DataFrame(rows, schema=TASK_SCHEMA, orient="row"),
        pl.DataFrame(passages, schema=PASSAGE_SCHEMA, orient="row"),
    )


def assign_splits(atlas: Atlas, seed: int, sizes: dict[str, int]) -> dict[str, str]:
    """The split of every name that can decide one, in shares that follow `sizes`, kind by kind.

    A string that is of two kinds (a language and a demonym) keeps the split it was given first.
    """
    countries = atlas.countries.values()
    kinds: list[Iterable[str | None]] = [
        atlas.countries,
        [*(country.capital for country in countries), *atlas.cities],
        [country.currency for country in countries],
        [country.language for country in countries],
        [country.demonym for country in countries],
    ]
    total = sum(sizes.values())
    split_of: dict[str, str] = {}
    for kind in kinds:
        names = sorted({name for name in kind if name} - set(split_of))
        Random(f"{seed} {len(split_of)}").shuffle(names)
        start, done = 0, 0
        for split, size in sizes.items():
            done += size
            end = round(len(names) * done / total)
            split_of |= dict.fromkeys(names[start:end], split)
            start = end
    return split_of


def _by_split(questions: Iterable[Question], split_of: dict[str, str], random: Random) -> dict[str, list[Question]]:
    """Questions by split, shuffled, with strata taking turns until each runs out."""
    strata: dict[str, dict[str, list[Question]]] = defaultdict(lambda: defaultdict(list))
    for question in questions:
        strata[split_of[question.owner]][question.stratum].append(question)
    ordered: dict[str, list[Question]] = defaultdict(list)
    for split, groups in strata.items():
        for group in groups.values():
            random.shuffle(group)
        turns = zip_longest(*groups.values())
        ordered[split] = [question for turn in turns for question in turn if question is not None]
    return ordered


def _phrase(pool: list[Question], size: int, label: str, split: str) -> list[tuple[Question, int, str]]:
    """`size` (question, phrasing number, words) from `pool`; questions come back in other words if needed."""
    tasks: list[tuple[Question, int, str]] = []
    used: set[str] = set()
    for turn, question in enumerate(_repeat(pool)):
        if len(tasks) == size:
            return tasks
        templates = _templates(question)
        own = phrasings.HELD_OUT.get(split)
        numbers = own if own and len(tasks) % 2 == 1 else range(phrasings.SEEN)
        # Halved where the two kinds take turns, since a step of two would always meet the same phrasings.
        start = turn // 2 if own else turn
        for step in range(len(numbers)):
            number = numbers[(start + step) % len(numbers)]
            words = _words(question, templates[number])
            if words not in used:
                used.add(words)
                tasks.append((question, number, words))
                break
    if len(tasks) == size:
        return tasks
    raise InputError(f"atlas: {label}, split {split!r}: expected at most {len(tasks)} tasks, found {size} asked for")


def _repeat(pool: list[Question]) -> Iterator[Question]:
    """The pool as many times as its questions could be put into different words, twice for both kinds."""
    for _ in range(2 * len(phrasings.COUNT)):
        yield from pool


def _templates(question: Question) -> tuple[str, ...]:
    if question.family == "lookup":
        return phrasings.LOOKUP[question.relation]
    if question.family == "bridge":
        return phrasings.BRIDGE[question.via or ""]
    plain = {
        "compare": phrasings.COMPARE,
        "superlative": phrasings.SUPERLATIVE,
        "intersect": phrasings.INTERSECT,
        "count": phrasings.COUNT,
        "verify": phrasings.VERIFY,
    }
    return plain[question.family]


def _words(question: Question, template: str) -> str:
    """The instruction: `template` with every slot filled."""
    names = [with_article(name) for name in question.entities]
    slots = dict(zip("abc", names, strict=False)) | {"x": names[0]}
    measure = question.relation, question.direction or ""
    if question.claim is not None:
        value = with_article(question.claim)
        slots["claim"] = phrasings.CLAIMS[question.relation].format(x=names[0], v=value)
    slots["fact"] = phrasings.FACT_NOUNS.get(question.relation, "")
    slots["more"], slots["most"] = phrasings.MORE.get(measure, ""), phrasings.MOST.get(measure, "")
    words = template.format(**slots)
    return words[0].upper() + words[1:]


def _row(split: str, number: int, question: Question, phrasing: int, words: str) -> tuple[object, ...]:
    payload = {
        "family": question.family,
        "phrasing": f"{question.family}/{question.via or question.relation}/{phrasing}",
        "held_out": phrasing >= phrasings.SEEN,
        "entities": question.entities,
        "relation": question.relation,
        "via": question.via,
        "claim": question.claim,
        "direction": question.direction,
        "supporting": question.supporting,
    }
    task_id = f"atlas-{split}-{number:05d}"
    return task_id, "atlas", split, words, list(question.answers), json.dumps(payload)
