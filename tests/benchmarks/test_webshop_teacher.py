"""The scripted shopper reads only what it is shown, finishes in time, and its strategies differ where they should."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from talentrl.bank import SkillBank
from talentrl.benchmarks.taskset import PASSAGE_SCHEMA, Task, TaskSet
from talentrl.benchmarks.webshop import load_webshop
from talentrl.benchmarks.webshop_reading import (
    Listing,
    option_strings,
    read_request,
    read_results,
    values_to_click,
)
from talentrl.benchmarks.webshop_teacher import TALENTS, play
from talentrl.environments.webshop import Shop, WebShopEnvironment
from talentrl.errors import InputError
from talentrl.policy.parser import parse_action

DATA = Path(os.environ.get("TALENTRL_DATA", Path(__file__).parents[2] / "../shared/data"))
REAL = DATA / "webshop"
BANK = Path(__file__).parents[2] / "banks/webshop"
real = pytest.mark.skipif(not REAL.is_dir(), reason=f"no {REAL}: set TALENTRL_DATA")

BELOW_30 = ", and price lower than 30.00 dollars"
REFUSED = "Not possible here; nothing changed. Possible: search[<your query>]."
RESULTS = (
    "Back to Search [SEP] Page 1 (Total results: 2) [SEP] B00000000A [SEP] Red Shirt [SEP] $12.5"
    " [SEP] B00000000B [SEP] Blue Shirt [SEP] $9.0 to $30.0"
)
ITEM = (
    "Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] wine red [SEP] size [SEP] 3x [SEP] Red Shirt"
    " [SEP] Price: $12.5 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
)


def asking(instruction: str) -> Task:
    return Task("1", "webshop", "train", instruction, (), {})


@pytest.mark.parametrize(
    ("instruction", "text", "subject", "options", "bound"),
    [
        (
            "Find me slim fit shirts with long sleeve with color: red, and fit type: men" + BELOW_30,
            "Find me slim fit shirts with long sleeve with color: red, and fit type: men",
            "slim fit shirts with long sleeve",
            ("red", "men"),
            30.0,
        ),
        (
            "Find me wood tables for living room",
            "Find me wood tables for living room",
            "wood tables for living room",
            (),
            None,
        ),
        (
            "i need a 1:1 scale car, and price lower than 30.00 dollars",
            "i need a 1:1 scale car",
            "i need a 1:1 scale car",
            (),
            30.0,
        ),
        ("", "", "", (), None),
    ],
)
def test_a_request_is_taken_apart(instruction, text, subject, options, bound):
    request = read_request(instruction)
    assert (request.text, request.subject, request.options, request.bound) == (text, subject, options, bound)


def test_pages_are_read_as_shown():
    assert read_results(RESULTS) == [
        Listing("B00000000A", "Red Shirt", (12.5,)),
        Listing("B00000000B", "Blue Shirt", (9.0, 30.0)),
    ]
    assert read_results(ITEM) == read_results("Search") == []
    assert option_strings(ITEM) == ["color", "red", "wine red", "size", "3x"]
    assert option_strings(RESULTS) == option_strings("Search") == []


def test_named_values_are_clicked_if_offered_else_those_whose_words_are_in_the_request():
    named = read_request("Find me shirts with color: red, and size: 4x")
    assert values_to_click(named, ITEM) == ["red"]
    assert values_to_click(read_request("a shirt in red, size 3x"), ITEM) == ["red", "3x"]
    assert values_to_click(read_request("a wine red shirt"), ITEM) == ["red", "wine red"]


@given(st.text(max_size=200))
def test_any_text_can_be_read(text):
    request = read_request(text)
    assert isinstance(request.words, frozenset)
    assert all(value in option_strings(text) for value in values_to_click(request, text))
    read_results(text)


@pytest.mark.parametrize("talent", TALENTS)
@pytest.mark.parametrize("observation", ["", REFUSED, ITEM])
def test_a_shopper_without_results_ends_instead_of_looping(talent, observation):
    script = play(asking("Find me shirts with color: red, and price lower than 30.00 dollars"), talent)
    texts = [next(script)]
    with pytest.raises(StopIteration):
        for _ in range(30):
            texts.append(script.send(observation))
    assert all(parse_action(text) for text in texts)


def test_an_unknown_talent_is_refused_at_once():
    with pytest.raises(InputError, match="unknown talent 'lookup', expected one of"):
        play(asking("x"), "lookup")


def test_the_bank_has_a_script_for_every_talent_and_keeps_its_texts_short():
    bank = SkillBank.load(BANK)
    assert set(bank.talents) == set(TALENTS) and len(bank.skills) >= 15 and bank.warnings == ()
    assert {skill for talent in bank.talents.values() for skill in talent.skills} == set(bank.skills)
    for skill in bank.skills.values():
        assert len(skill.description.split()) <= 12 and len(skill.body.split()) <= 28, skill.id
        assert "<" not in skill.description + skill.body, skill.id
        assert set(skill.task_types) <= {"plain", "options", "price"}, skill.id
    for talent in bank.talents.values():
        assert len(talent.description.split()) <= 8 and len(talent.strategy.split()) <= 30, talent.id
        assert "<" not in talent.description + talent.strategy, talent.id


@pytest.fixture(scope="module")
def train() -> tuple[list[Task], Shop]:
    data = load_webshop(REAL)
    return TaskSet(data.tasks, PASSAGE_SCHEMA.to_frame()).split("train"), Shop.build(data.products)


def rewards(tasks: list[Task], shop: Shop, talent: str) -> list[float]:
    """Rewards of the talent; every action is valid, and it buys within 15 turns."""
    found = []
    for task in tasks:
        environment, script = WebShopEnvironment(task, shop), play(task, talent)
        environment.reset()
        text = next(script)
        for _ in range(15):
            step = environment.step(parse_action(text))
            assert step.valid, (task.task_id, text, step.observation)
            if step.done:
                break
            text = script.send(step.observation)
        assert step.done, (task.task_id, talent)
        found.append(environment.outcome().value)
    return found


def some(tasks: list[Task], options: range, price: bool) -> list[Task]:
    """At most 170 goals, one a product, by number of options and whether a price is stated."""
    fitting = [
        task
        for task in random.Random(1).sample(tasks, len(tasks))
        if len(task.payload["options"]) in options and (task.payload["price_upper"] < 1000) == price
    ]
    return list({task.payload["asin"]: task for task in fitting}.values())[:170]


@real
def test_no_talent_is_best_for_all_kinds_of_goal(train):
    tasks, shop = train
    plain, options, dear = (
        {talent: sum(rewards(some(tasks, *kind), shop, talent)) for talent in TALENTS}
        for kind in ((range(1), True), (range(1, 4), True), (range(4), False))
    )
    assert max(plain, key=plain.__getitem__) == "attribute-check"
    assert max(options, key=options.__getitem__) == "option-match"
    assert dear["first-hit"] > dear["price-bound"] and dear["first-hit"] > dear["attribute-check"]
    assert plain["price-bound"] > plain["first-hit"] and options["price-bound"] < options["options-first"]


@real
@pytest.mark.slow
def test_every_talent_finishes_every_train_goal_in_time_with_valid_actions(train):
    tasks, shop = train
    for talent in TALENTS:
        rewards(tasks, shop, talent)
