"""Cards of the seven question-answering sets: what a record of a result must say of the data behind it."""

from dataclasses import asdict, dataclass
from typing import Any

from talentrl.benchmarks.taskset import TaskSet
from talentrl.errors import InputError

HUB = "RUC-NLPIR/FlashRAG_datasets"
"""One hub repository carries all seven sets in one format, a configuration each: the copy that the field scores on."""


@dataclass(frozen=True)
class Card:
    """A set as it was published."""

    name: str
    title: str
    source: str
    """Who made it, and where it is from."""
    split: str
    """The split that results are reported on, as the field calls it; items that name none get it."""
    published: int
    """Items of that split as published; a copy may hold fewer."""
    dev_as_test: bool
    """Whether that split is the published dev set, because the answers of the test set are hidden."""
    hub_splits: tuple[str, ...]
    licence: str
    note: str
    """What to know before comparing a figure."""

    def record(self, tasks: TaskSet) -> dict[str, Any]:
        """The card with what `tasks` hold of the set: counts by split, and the number of passages searched."""
        counts = dict(sorted(tasks.tasks["split"].value_counts().iter_rows()))
        return asdict(self) | {"counts": counts, "passages": tasks.passages.height}


CARDS = {
    card.name: card
    for card in (
        Card(
            "nq",
            "Natural Questions (open)",
            "Kwiatkowski et al. 2019; Lee et al. 2019; github.com/google-research-datasets/natural-questions",
            "test",
            3610,
            True,
            ("train", "dev", "test"),
            "CC BY-SA 3.0",
            'The "test" of open-domain work is the published dev set; the "dev" of the hub copy is cut from train. '
            "Questions are lower case and carry no question mark.",
        ),
        Card(
            "triviaqa",
            "TriviaQA (unfiltered)",
            "Joshi et al. 2017; nlp.cs.washington.edu/triviaqa",
            "test",
            11313,
            True,
            ("train", "dev", "test"),
            "Apache-2.0",
            'The "test" of open-domain work is the published unfiltered dev set. Answers have many aliases, some '
            "far-fetched, which lifts exact match. The official script normalises differently (it also drops curly "
            "quotes); figures here use SQuAD's normalisation, as the field does.",
        ),
        Card(
            "popqa",
            "PopQA",
            "Mallen et al. 2023; github.com/AlexTMallen/adaptive-retrieval",
            "test",
            14267,
            False,
            ("test",),
            "MIT",
            "Template questions with ambiguous subjects. Results are reported on all 14,267, on the 1,399 with rare "
            "subjects, or on samples of 1,000: not comparable with one another. Aliases hold abbreviations.",
        ),
        Card(
            "hotpotqa",
            "HotpotQA",
            "Yang et al. 2018; hotpotqa.github.io",
            "dev",
            7405,
            True,
            ("train", "dev"),
            "CC BY-SA 4.0",
            "The test set is hidden. Paragraphs are ten an item (distractor) or retrieved (fullwiki, which may lack "
            "the supporting ones). Dev holds hard questions only. No aliases.",
        ),
        Card(
            "2wikimultihopqa",
            "2WikiMultihopQA",
            "Ho et al. 2020; github.com/Alab-NII/2wikimultihop",
            "dev",
            12576,
            True,
            ("train", "dev"),
            "Apache-2.0",
            "The test set is hidden. Aliases are in a file of their own (id_aliases.json), which few use. Names and "
            "dates are spelled otherwise in questions, evidence and paragraphs.",
        ),
        Card(
            "musique",
            "MuSiQue (answerable)",
            "Trivedi et al. 2022; github.com/StonyBrookNLP/musique",
            "dev",
            2417,
            True,
            ("train", "dev"),
            "CC BY 4.0",
            'The test set is hidden: figures called "test" are dev. Only musique_ans is read; the full set holds each '
            "question twice, once unanswerable. Copies of question and answer alone lack the aliases.",
        ),
        Card(
            "bamboogle",
            "Bamboogle",
            "Press et al. 2023; github.com/ofirpress/self-ask",
            "test",
            125,
            False,
            ("test",),
            "MIT",
            "125 items: an interval of exact match is about ±.08. One answer an item, some of them long.",
        ),
    )
}


def card(name: str) -> Card:
    """The card of set `name`. Raises InputError if there is no such set."""
    if name not in CARDS:
        raise InputError(f"benchmark: found {name!r}, expected one of {sorted(CARDS)}")
    return CARDS[name]
