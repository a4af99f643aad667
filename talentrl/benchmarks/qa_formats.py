"""From a record of any published format of the seven sets to one `Item`.

Three shapes are told apart by their fields: ours (`answers`), the hub copy's (`golden_answers`, the same for all
sets), and each set's own. Own shapes, and what is not obvious in them:

- NQ-open: JSONL of `question`, `answer` (a list). No ids.
- TriviaQA: `Data` of `QuestionId`, `Question`, `Answer` with `Value`, `Aliases`, `NormalizedAliases`, `HumanAnswers`;
  the last two are gold in the official script too.
- PopQA: TSV, `possible_answers` is JSON.
- HotpotQA, 2WikiMultihopQA: `context` of [title, sentences], `supporting_facts` of [title, sentence]; 2Wiki adds
  `evidences`, the triples that lead to the answer.
- MuSiQue: `paragraphs`, `question_decomposition` that points into them, `answer_aliases`.
- Bamboogle: CSV of `Question`, `Answer`. No ids.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from talentrl.benchmarks.records import Record, parse_json
from talentrl.errors import InputError

_SPLITS = {"validation": "dev", "train?": "train"}
_KEPT = ("type", "level", "hops", "prop", "subj", "s_pop")


class Paragraph(NamedTuple):
    """A paragraph that an item brings along."""

    title: str
    text: str
    supporting: bool


@dataclass(frozen=True)
class Item:
    """One question. What a set does not state is None or empty."""

    id: str | None
    split: str | None
    question: str
    answers: list[str]
    paragraphs: list[Paragraph] | None = None
    passage_ids: list[str] | None = None
    """Ids of the item's passages in a collection."""
    extra: dict[str, Any] = field(default_factory=dict)
    """For the payload: `type`, `level` …; `decomposition`, a list of {question, answer, title}; `evidences`, a list
    of [subject, relation, object]."""


def read_item(name: str, record: Record) -> Item:
    """The item of set `name` that `record` holds, in whichever shape.

    Raises:
        InputError: a field is missing or not of its kind; the message names file, item and field.
    """
    if "golden_answers" in record:
        return _hub_copy(record)
    if "answers" in record or ("id" in record and name not in _OWN_ID):
        return _ours(record)
    return OWN[name](record)


def _ours(record: Record) -> Item:
    paragraphs = None
    if "context" in record:
        found = record.records("context", "paragraphs")
        if not found:
            raise record.unexpected("context", "a list of paragraphs")
        paragraphs = [Paragraph(p.text("title"), p.text("text"), bool(p.get("supporting"))) for p in found]
    steps = record.records("decomposition", "steps") if "decomposition" in record else []
    return Item(
        record.name("id"),
        _split(record),
        record.text("question"),
        record.texts("answers"),
        paragraphs,
        [str(id) for id in record.values("passage_ids", "ids")] if "passage_ids" in record else None,
        _extra(record, _decomposition(steps, "support", paragraphs or ())),
    )


def _hub_copy(record: Record) -> Item:
    about = record.record("metadata") if "metadata" in record else Record({}, record.where)
    return Item(
        record.name("id"),
        _split(record),
        record.text("question"),
        record.texts("golden_answers"),
        extra={name: about.get(name) for name in _KEPT if name in about},
    )


def _nq(record: Record) -> Item:
    return Item(None, None, record.text("question"), record.texts("answer"))


def _triviaqa(record: Record) -> Item:
    answer = record.record("Answer")
    more = [text for name in ("Aliases", "NormalizedAliases", "HumanAnswers") for text in _some_texts(answer, name)]
    return Item(
        record.text("QuestionId"), None, record.text("Question"), _without_repetition([answer.text("Value"), *more])
    )


def _popqa(record: Record) -> Item:
    text = record.text("possible_answers")
    try:
        answers = parse_json(text, record.where)
    except InputError:
        raise record.unexpected("possible_answers", "a JSON list of texts") from None
    checked = Record({"possible_answers": answers}, record.where).texts("possible_answers")
    return Item(record.name("id"), None, record.text("question"), checked, extra=_extra(record, []))


def _hotpotqa(record: Record) -> Item:
    supporting = {title for title, _ in record.pairs("supporting_facts")}
    paragraphs = []
    for place, (title, sentences) in enumerate(record.pairs("context")):
        inside = Record({"title": title, "sentences": sentences}, record.where, f"context[{place}].")
        text = " ".join(str(sentence).strip() for sentence in inside.values("sentences", "sentences")).strip()
        if text:  # a few retrieved paragraphs are empty as published
            paragraphs.append(Paragraph(inside.text("title"), text, title in supporting))
    answers = [record.text("answer")]
    return Item(record.name("_id"), None, record.text("question"), answers, paragraphs, extra=_extra(record, []))


def _musique(record: Record) -> Item:
    if record.get("answerable") is False:
        raise record.unexpected("answerable", "true (read musique_ans, not musique_full)")
    found = record.records("paragraphs", "paragraphs")
    paragraphs = [Paragraph(p.text("title"), p.text("paragraph_text"), bool(p.get("is_supporting"))) for p in found]
    steps = record.records("question_decomposition", "steps")
    return Item(
        record.text("id"),
        None,
        record.text("question"),
        _without_repetition([record.text("answer"), *_some_texts(record, "answer_aliases")]),
        paragraphs,
        extra={"hops": len(steps)} | _extra(record, _decomposition(steps, "paragraph_support_idx", paragraphs)),
    )


def _bamboogle(record: Record) -> Item:
    return Item(None, None, record.text("Question"), [record.text("Answer")])


OWN: dict[str, Callable[[Record], Item]] = {
    "nq": _nq,
    "triviaqa": _triviaqa,
    "popqa": _popqa,
    "hotpotqa": _hotpotqa,
    "2wikimultihopqa": _hotpotqa,
    "musique": _musique,
    "bamboogle": _bamboogle,
}
"""The reader of each set's own format."""
_OWN_ID = ("popqa", "musique")
"""Sets whose own format also has a field `id`."""


def _split(record: Record) -> str | None:
    """The item's own split in the words train, dev, test; a `?` says that a collector inferred it."""
    if "split" not in record.fields:
        return None
    split = record.text("split")
    return _SPLITS.get(split, split)


def _extra(record: Record, decomposition: list[dict[str, Any]]) -> dict[str, Any]:
    """What the payload keeps of a record, the supporting titles in the order of their first mention."""
    kept = {name: record.get(name) for name in _KEPT if name in record}
    if "supporting_facts" in record:
        kept["supporting_titles"] = _without_repetition(title for title, _ in record.pairs("supporting_facts"))
    if "evidences" in record:
        kept["evidences"] = record.values("evidences", "triples")
        if not all(isinstance(triple, list) and len(triple) == 3 for triple in kept["evidences"]):
            raise record.unexpected("evidences", "a list of [subject, relation, object]")
    return kept | ({"decomposition": decomposition} if decomposition else {})


def _decomposition(steps: Iterable[Record], support: str, paragraphs: Sequence[Paragraph]) -> list[dict[str, Any]]:
    """Single-hop questions with answers and the title of the paragraph that each rests on."""
    found = []
    for step in steps:
        place = step.get(support)
        if place is not None and not (isinstance(place, int) and 0 <= place < len(paragraphs)):
            raise step.unexpected(support, f"the place of one of {len(paragraphs)} paragraphs")
        title = None if place is None else paragraphs[place].title
        found.append({"question": step.text("question"), "answer": step.text("answer"), "title": title})
    return found


def _some_texts(record: Record, field: str) -> list[str]:
    """A list of texts that may be absent or empty; blank ones are left out."""
    values = record.values(field, "texts") if field in record else []
    if not all(isinstance(value, str) for value in values):
        raise record.unexpected(field, "a list of texts")
    return [value for value in values if value.strip()]


def _without_repetition(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
