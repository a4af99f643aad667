"""`atlas`: what the builder promises about tasks, splits and answers, recomputed from the sources."""

import re
from collections import Counter

import polars as pl
import pytest

from talentrl.benchmarks.atlas import build_atlas
from talentrl.benchmarks.atlas_families import FAMILIES
from talentrl.benchmarks.atlas_passages import all_facts, read_fact, read_number, render, rounded
from talentrl.benchmarks.facts import load_cities, load_countries
from talentrl.benchmarks.taskset import Task, TaskSet
from talentrl.errors import InputError

SIZES = {"train": 1200, "dev": 200, "test": 400}
NUMBERS = ["two", "three", "four", "five", "six", "seven", "eight", "nine"]
COUNTRIES = {country.name: country for country in load_countries()}
CITIES = {city.name: city for city in load_cities()}


@pytest.fixture(scope="module")
def atlas() -> TaskSet:
    return build_atlas(7, **SIZES)


@pytest.fixture(scope="module")
def tasks(atlas: TaskSet) -> list[Task]:
    return [task for split in SIZES for task in atlas.split(split)]


def of_family(tasks: list[Task], family: str) -> list[Task]:
    found = [task for task in tasks if task.payload["family"] == family]
    assert found
    return found


def is_open(answer: str) -> bool:
    """Names and the like; yes, no and numbers are closed classes."""
    return answer not in ("yes", "no", *NUMBERS) and not re.match(r"\+?\d", answer)


def value_of(name: str, relation: str):
    """A fact straight from the source tables, not from a passage."""
    if name in CITIES:
        return getattr(CITIES[name], relation)
    return getattr(COUNTRIES[name], relation)


def test_same_seed_gives_identical_bytes_and_another_seed_does_not(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_atlas(seed, 70, 14, 28).write(tmp_path / name)
    for file in ("tasks.parquet", "passages.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a/tasks.parquet").read_bytes() != (tmp_path / "c/tasks.parquet").read_bytes()


@pytest.mark.parametrize("seed", range(5))
def test_the_promised_sizes_are_feasible_for_any_seed(seed):
    counts = dict(build_atlas(seed, **SIZES).tasks["split"].value_counts().iter_rows())
    assert counts == SIZES


def test_families_are_balanced_and_mixed_in_every_split(atlas):
    for split in SIZES:
        families = [task.payload["family"] for task in atlas.split(split)]
        counts = Counter(families)
        assert set(counts) == set(FAMILIES)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert len(set(families[:20])) > 3


def test_ids_and_instructions_are_unique(atlas):
    for column in ("task_id", "instruction"):
        assert atlas.tasks[column].is_unique().all()
    assert atlas.passages["passage_id"].is_unique().all()
    assert atlas.passages["text"].is_unique().all()


def test_open_answers_belong_to_one_split(tasks):
    splits: dict[str, set[str]] = {}
    for task in tasks:
        for answer in filter(is_open, task.answers):
            splits.setdefault(answer.lower(), set()).add(task.split)
    assert len(splits) > 300
    assert [answer for answer, where in splits.items() if len(where) > 1] == []


def test_closed_answers_are_split_by_the_thing_asked_about(tasks):
    splits: dict[tuple[str, str], set[str]] = {}
    for task in tasks:
        if task.payload["family"] in ("count", "verify"):
            splits.setdefault(task.payload["entities"][0], set()).add(task.split)
    assert all(len(where) == 1 for where in splits.values())


def test_dev_and_test_each_ask_half_of_their_tasks_in_words_of_their_own(atlas):
    numbers: dict[str, set[int]] = {}
    for split in SIZES:
        for task in atlas.split(split):
            number = int(task.payload["phrasing"].rsplit("/")[-1])
            numbers.setdefault(split, set()).add(number)
            assert task.payload["held_out"] == (number >= 8)
    assert numbers == {"train": set(range(8)), "dev": set(range(10)), "test": {*range(8), 10, 11}}
    for split in ("dev", "test"):
        by_family = Counter(task.payload["family"] for task in atlas.split(split) if task.payload["held_out"])
        total = Counter(task.payload["family"] for task in atlas.split(split))
        assert all(abs(2 * by_family[family] - total[family]) <= 1 for family in FAMILIES)


def test_no_held_out_wording_is_used_elsewhere(atlas):
    def shape(task: Task) -> str:
        words = task.instruction
        for name in sorted(task.payload["entities"], key=len, reverse=True):
            words = words.replace(name, "_")
        return words

    seen = {shape(task) for split in SIZES for task in atlas.split(split) if not task.payload["held_out"]}
    for split, other in (("dev", "test"), ("test", "dev")):
        own = {shape(task) for task in atlas.split(split) if task.payload["held_out"]}
        assert not own & (seen | {shape(task) for task in atlas.split(other)})


def test_supporting_passages_exist_and_hold_what_a_lookup_answers(atlas, tasks):
    texts = dict(atlas.passages.select("passage_id", "text").iter_rows())
    for task in tasks:
        assert task.payload["supporting"]
        assert set(task.payload["supporting"]) <= set(texts)
        if task.payload["family"] in ("lookup", "bridge"):
            assert task.answers[0] in texts[task.payload["supporting"][-1]]


def test_lookup_answers_agree_with_the_sources(tasks):
    for task in of_family(tasks, "lookup"):
        value = value_of(task.payload["entities"][0], task.payload["relation"])
        expected = rounded(value) if isinstance(value, int) else value
        assert task.answers[0].removesuffix(" square kilometres") == expected


def test_bridge_never_names_the_country_between_and_has_one_answer(tasks):
    for task in of_family(tasks, "bridge"):
        place, via, relation = task.payload["entities"][0], task.payload["via"], task.payload["relation"]
        if via == "country":
            between = [CITIES[place].country]
        else:
            between = [name for name in COUNTRIES if value_of(name, via) == place]
        assert len(between) == 1, task.instruction
        assert not re.search(rf"\b{between[0]}\b", task.instruction)
        value = value_of(between[0], relation)
        assert task.answers[0] == (rounded(value) if isinstance(value, int) else value)


@pytest.mark.parametrize(("family", "size"), [("compare", 2), ("superlative", 3)])
def test_contests_have_a_clear_winner_at_any_position(tasks, family, size):
    positions: Counter[int] = Counter()
    for task in of_family(tasks, family):
        names = task.payload["entities"]
        values = [value_of(name, task.payload["relation"]) for name in names]
        winner, second = sorted(values, reverse=task.payload["direction"] == "max")[:2]
        assert max(winner, second) >= 2 * min(winner, second)
        assert names[values.index(winner)] == task.answers[0]
        assert len(set(names)) == size
        positions[names.index(task.answers[0])] += 1
    assert min(positions.values()) > 0.7 * max(positions.values())


def test_intersect_has_exactly_one_answer(tasks):
    for task in of_family(tasks, "intersect"):
        first, second = (set(COUNTRIES[name].borders) for name in task.payload["entities"])
        assert first & second == {task.answers[0]}


def test_count_is_the_number_of_neighbours(tasks):
    for task in of_family(tasks, "count"):
        number = len(COUNTRIES[task.payload["entities"][0]].borders)
        assert 2 <= number <= 9
        assert task.answers == (str(number), NUMBERS[number - 2])


def test_claims_are_true_as_often_as_false(tasks):
    for split in SIZES:
        answers = []
        for task in of_family([task for task in tasks if task.split == split], "verify"):
            value = value_of(task.payload["entities"][0], task.payload["relation"])
            holds = task.payload["claim"] in value if isinstance(value, tuple) else task.payload["claim"] == value
            assert task.answers == ("yes" if holds else "no",)
            answers.append(holds)
        assert abs(2 * sum(answers) - len(answers)) <= 2


def test_facts_are_many_clean_and_symmetric():
    assert len(COUNTRIES) >= 190
    assert len(CITIES) >= 700
    assert not set(COUNTRIES) & set(CITIES)
    for country in COUNTRIES.values():
        for neighbour in country.borders or ():
            back = COUNTRIES[neighbour].borders
            assert back is None or country.name in back
    assert all(name.isascii() for name in (*COUNTRIES, *CITIES))


def test_known_facts():
    peru = COUNTRIES["Peru"]
    assert (peru.capital, peru.currency, peru.calling_code) == ("Lima", "sol", "51")
    assert peru.borders == ("Bolivia", "Brazil", "Chile", "Colombia", "Ecuador")
    assert CITIES["Arequipa"].country == "Peru"
    assert COUNTRIES["Australia"].currency == "Australian dollar"


def test_passages_are_short_many_and_read_back(atlas):
    facts = all_facts()
    assert 4000 <= len(facts) == len(atlas.passages) <= 6000
    assert [read_fact(render(fact)) for fact in facts] == facts
    lengths = atlas.passages["text"].str.split(" ").list.len()
    assert lengths.quantile(0.98) <= 18
    assert read_fact("Nothing of ours.") is None


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1_411_778_724, "1.4 billion"),
        (31_989_256, "32 million"),
        (2_866_376, "2.9 million"),
        (2_000_000, "2 million"),
        (838_400, "838 thousand"),
        (999_700, "1000 thousand"),
        (61, "61"),
    ],
)
def test_numbers_are_rounded_for_reading(number, text):
    assert rounded(number) == text
    assert read_number(text) == pytest.approx(number, rel=0.05)


def test_small_and_empty_splits():
    assert build_atlas(3, 10, 0, 5).tasks["split"].to_list().count("dev") == 0
    assert set(build_atlas(3, 0, 0, 7).tasks["split"]) == {"test"}


def test_impossible_sizes_are_refused():
    with pytest.raises(InputError, match=r"family '[a-z]+', split 'train': expected at most"):
        build_atlas(0, 20_000, 10, 10)
    with pytest.raises(InputError, match="sizes"):
        build_atlas(0, -1, 10, 10)
    with pytest.raises(InputError, match="sizes"):
        build_atlas(0, 0, 0, 0)


def test_round_trip_through_files(atlas, tmp_path):
    atlas.write(tmp_path / "atlas")
    assert TaskSet.read(tmp_path / "atlas").tasks.equals(atlas.tasks)
    assert isinstance(atlas.tasks, pl.DataFrame)
