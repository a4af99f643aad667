"""The scripted teacher: right where its strategy fits, mostly wrong elsewhere, blind to the answers."""

import heapq
import re
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from talentrl.benchmarks.atlas import build_atlas
from talentrl.benchmarks.atlas_families import FAMILIES
from talentrl.benchmarks.atlas_teacher import TALENTS, play
from talentrl.benchmarks.taskset import Task, TaskSet
from talentrl.errors import InputError
from talentrl.policy.parser import parse_action

SEARCHES = {
    "lookup": 1,
    "bridge": 2,
    "compare": 2,
    "superlative": 3,
    "intersect": 2,
    "count": 1,
    "verify": 1,
    "careful": 2,
}


class OverlapSearch:
    """Two best passages by the number of query words in them, then by whether it starts with the title."""

    def __init__(self, tasks: TaskSet) -> None:
        self.passages = list(tasks.passages.select("title", "text").iter_rows())
        self.rows: dict[str, list[int]] = defaultdict(list)
        for row, (_, text) in enumerate(self.passages):
            for word in set(self.words(text)):
                self.rows[word].append(row)
        self.seen: dict[str, str] = {}

    @staticmethod
    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())

    def __call__(self, query: str) -> str:
        if query not in self.seen:
            overlap = Counter(row for word in set(self.words(query)) for row in self.rows.get(word, []))

            def key(row: int) -> tuple[int, bool, int]:
                title, text = self.passages[row]
                return -overlap[row], not query.startswith(f"{title} "), len(text)

            best = heapq.nsmallest(2, overlap, key=key)
            self.seen[query] = "<information>" + "\n".join(self.passages[row][1] for row in best) + "</information>"
        return self.seen[query]


def run(task: Task, talent: str, search) -> tuple[list[str], str]:
    """The queries and the answer of one play."""
    script, queries = play(task, talent), []
    text = next(script)
    while match := re.fullmatch(r"<search>(.+)</search>", text):
        queries.append(match[1])
        text = script.send(search(match[1]))
    action = parse_action(text)
    assert action and action.kind == "answer", text
    return queries, action.argument


@pytest.fixture(scope="module")
def atlas() -> TaskSet:
    return build_atlas(0, 70, 14, 280)


@pytest.fixture(scope="module")
def search(atlas):
    return OverlapSearch(atlas)


@pytest.fixture(scope="module")
def success(atlas, search) -> dict[tuple[str, str], float]:
    outcomes = defaultdict(list)
    for task in atlas.split("test"):
        for talent in TALENTS:
            queries, answer = run(task, talent, search)
            assert len(queries) == SEARCHES[talent]
            outcomes[talent, task.payload["family"]].append(answer in task.answers)
    return {pair: sum(right) / len(right) for pair, right in outcomes.items()}


def test_the_talents_are_those_of_the_starter_bank():
    assert set(TALENTS) == {*FAMILIES, "careful"}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_fitting_strategy_succeeds(success, family):
    assert success[family, family] >= 0.95


@pytest.mark.parametrize("talent", FAMILIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_other_strategies_mostly_fail(success, talent, family):
    # Three measurements with two names give the right answer too, and two of three names often hold the
    # winner; a bridge that leads back to where it began has one of two names.
    related = {("superlative", "compare"): 1.0, ("compare", "superlative"): 0.8, ("bridge", "compare"): 0.4}
    if talent != family:
        assert success[talent, family] <= related.get((talent, family), 0.25)


def test_careful_helps_with_what_one_passage_states(success):
    assert success["careful", "lookup"] >= 0.4
    assert success["careful", "verify"] == 0


def test_queries_are_name_and_fact(atlas, search):
    task = next(
        task for task in atlas.split("train") if (task.payload["family"], task.payload["via"]) == ("bridge", "capital")
    )
    place, relation = task.payload["entities"][0], task.payload["relation"]
    queries, _ = run(task, "bridge", search)
    assert queries[0] == f"{place} capital of"
    assert queries[1].endswith(relation.replace("_", " "))


BORDERS = {
    "Chad borders": "The borders of Chad: Chad touches Libya, Niger, Sudan.",
    "Egypt borders": "The borders of Egypt: Egypt touches Israel, Sudan, Libya.",
    "Chad population": "Chad has a population of about 16 million.",
    "Egypt population": "The population of Egypt is about 99 million.",
}


@pytest.mark.parametrize(
    ("talent", "last"),
    [
        ("count", "1 Libya. 2 Niger. 3 Sudan. <answer>3</answer>"),
        ("intersect", "Libya yes. <answer>Libya</answer>"),
        ("compare", "Chad 16 million. Egypt 99 million. <answer>Chad</answer>"),
        ("verify", "<answer>no</answer>"),
    ],
)
def test_it_writes_its_working_down_before_the_answer(talent, last):
    payload = {"entities": ["Chad", "Egypt"], "relation": "population", "via": None, "claim": None, "direction": "min"}
    script = play(Task("t", "atlas", "train", "Chad or Egypt?", ("Chad",), payload), talent)
    text = next(script)
    while search := re.fullmatch(r"<search>(.+)</search>", text):
        text = script.send(f"<information>{BORDERS[search[1]]}</information>")
    assert text == last


@pytest.mark.parametrize("talent", TALENTS)
def test_the_answers_are_never_read(atlas, search, talent):
    for task in atlas.split("dev"):
        blind = replace(task, answers=(), payload=task.payload | {"supporting": [], "family": "", "phrasing": ""})
        assert run(task, talent, search) == run(blind, talent, search)


@pytest.mark.parametrize("talent", TALENTS)
@pytest.mark.parametrize("observation", ["", "<information></information>", "<information>No passage.\n</information>"])
def test_it_answers_something_when_nothing_is_found(atlas, talent, observation):
    for task in atlas.split("dev"):
        _, answer = run(task, talent, lambda query: observation)
        assert answer


def test_verify_says_yes_or_no_and_count_says_a_number(atlas, search):
    for task in atlas.split("dev"):
        assert run(task, "verify", search)[1] in ("yes", "no")
        assert run(task, "count", search)[1].isdigit()


def test_unknown_talents_and_other_tasks_are_refused(atlas):
    task = atlas.split("dev")[0]
    with pytest.raises(InputError, match="unknown talent 'guess'"):
        play(task, "guess")
    with pytest.raises(InputError, match="entities"):
        play(replace(task, payload={"type": "bridge"}), "lookup")
