"""The environment's contract: invalid actions, judgement, pickling, determinism, clear errors."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webshop_samples import act, frame, many, row, task

from talentrl.environments.environment import Step
from talentrl.environments.webshop import Shop, WebShopEnvironment
from talentrl.environments.webshop.environment import ANY_SEARCH, NO_ACTION
from talentrl.errors import InputError
from talentrl.policy.parser import Action

SHOP = many(12)
ITEM = ("search[cotton shirt]", "click[b000000001]")


def at(*commands: str) -> WebShopEnvironment:
    environment = WebShopEnvironment(task(), SHOP)
    environment.reset()
    act(environment, *commands)
    return environment


def refused(environment: WebShopEnvironment, command: str) -> Step:
    """Take a command that must be refused and change nothing."""
    before, admissible = environment._state, environment.admissible()
    step = environment.step(Action("action", command))
    assert not step.valid and not step.done
    assert (environment._state, environment.admissible()) == (before, admissible)
    return step


def test_a_full_purchase():
    environment = at(*ITEM, "click[red]", "click[s]")
    step = environment.step(Action("action", "click[Buy Now]"))
    assert step == Step("", done=True)
    assert environment.outcome().value == 1
    assert environment.outcome().metrics == {"score": 100.0, "success": 1.0}


def test_a_part_of_the_goal_scores_but_is_no_success():
    environment = at(*ITEM, "click[red]")
    assert environment.outcome().value == 0
    act(environment, "click[buy now]")
    assert environment.outcome().value == 0.75
    assert environment.outcome().metrics == {"score": 75.0, "success": 0.0}


def test_without_a_purchase_nothing_is_scored():
    for environment in (at(), at(*ITEM, "click[red]", "click[s]"), at("search[shirt]", "click[next >]")):
        assert environment.outcome().value == 0
        assert environment.outcome().metrics == {"score": 0.0, "success": 0.0}


def test_after_the_purchase_nothing_can_be_done():
    environment = at(*ITEM, "click[buy now]")
    outcome = environment.outcome()
    for action in (Action("action", "click[red]"), Action("action", "search[x]"), None):
        step = environment.step(action)
        assert step.done and not step.valid
    assert environment.admissible() == []
    assert environment.outcome() == outcome


def test_clicks_ignore_case_and_outer_spaces():
    at("search[Cotton SHIRT]", "click[ B000000001 ]", " click[X | L]", "click[BUY NOW]")


@pytest.mark.parametrize("place", [("search[shirt]",), ITEM, (*ITEM, "click[reviews]")])
def test_a_search_needs_the_search_box(place):
    assert "click[back to search]" in refused(at(*place), "search[shirt]").observation


@pytest.mark.parametrize(
    "command",
    [
        "click[green]",
        "click[b000000099]",
        "click[next >]",
        "click[search]",
        "click[]",
        "click",
        "buy now",
        "click[buy now",
        "press[buy now]",
        "click[attributes]",
        "click[red, s]",
        "click[red\x00]",
        "click[‮red]",
        "x" * 10_000,
        f"click[{'red' * 4000}]",
    ],
)
def test_unknown_clicks_change_nothing_and_are_told_what_is_possible(command):
    step = refused(at(*ITEM), command)
    assert "click[buy now]" in step.observation and "click[red]" in step.observation
    assert len(step.observation) < 1000


@pytest.mark.parametrize("mode", ["<r>", "<a> slim fit", "<c> fashion", "<q> men's shirts", "<R>"])
def test_the_debug_searches_are_refused(mode):
    assert ANY_SEARCH in refused(at(), f"search[{mode}]").observation


def test_a_debug_word_elsewhere_is_a_word():
    at("search[shirt <r>]")


def test_ten_thousand_characters_are_refused_and_control_characters_are_no_words():
    refused(at(), f"search[{'shirt ' * 2000}]")
    assert act(at(), "search[\x00\x1b[31m\u202e cotton\x07shirt\u2028]") == act(at(), "search[31m cotton shirt]")


@pytest.mark.parametrize("action", [None, Action("search", "shirt"), Action("answer", "B000000001")])
def test_turns_without_a_shop_action_say_how_to_write_one(action):
    environment = at(*ITEM)
    assert environment.step(action) == Step(NO_ACTION, valid=False)
    act(environment, "click[red]")


def test_admissible_commands_are_sorted_and_all_valid():
    assert at().admissible() == [ANY_SEARCH]
    for place in ((), ("search[shirt]",), ("search[shirt]", "click[next >]"), ITEM, (*ITEM, "click[description]")):
        commands = at(*place).admissible()
        assert commands == sorted(commands)
        for command in commands:
            assert at(*place).step(Action("action", command)).valid


@given(st.text(max_size=40), st.sampled_from(["{}", "click[{}]", "search[{}]"]), st.sampled_from([(), ITEM]))
def test_no_text_breaks_the_shop_or_pays(text, form, place):
    environment = at(*place)
    step = environment.step(Action("action", form.replace("{}", text)))
    assert step.valid or step.observation
    assert environment.outcome().value == 0 or step.done


def test_reset_begins_again():
    environment = at(*ITEM, "click[red]", "click[buy now]")
    assert environment.reset() == WebShopEnvironment(task(), SHOP).reset()
    assert environment.outcome().value == 0
    act(environment, *ITEM)


def test_a_session_goes_on_after_pickling_in_any_place(tmp_path):
    SHOP.write(tmp_path / "shop")
    for shop in (SHOP, Shop.open(tmp_path / "shop")):
        environment = WebShopEnvironment(task(), shop)
        script = (*ITEM, "click[red]", "click[features]", "click[< prev]", "click[s]", "click[buy now]")
        for command in script:
            copy = pickle.loads(pickle.dumps(environment))
            assert copy.admissible() == environment.admissible()
            assert act(copy, command) == act(environment, command)
        assert pickle.loads(pickle.dumps(environment)).outcome() == environment.outcome()
        assert environment.outcome().value == 1


def test_a_session_in_a_shop_folder_is_small(tmp_path):
    many(500).write(tmp_path / "shop")
    environment = WebShopEnvironment(task(), Shop.open(tmp_path / "shop"))
    act(environment, *ITEM)
    assert len(pickle.dumps(environment)) < 5000


def test_the_version_names_engine_and_products():
    version = WebShopEnvironment(task(), SHOP).version
    assert version == WebShopEnvironment(task(), many(12)).version
    assert version != WebShopEnvironment(task(), many(13)).version
    assert version.startswith("webshop/1 ")


def test_a_goal_of_another_shop_or_benchmark_is_an_error():
    with pytest.raises(InputError, match="no product 'B999999999' among 12"):
        WebShopEnvironment(task("B999999999"), SHOP)
    broken = task()
    del broken.payload["price_upper"]
    with pytest.raises(InputError, match=r"price_upper.*missing"):
        WebShopEnvironment(broken, SHOP)


def test_a_human_goal_is_judged_by_texts():
    shop = Shop.build(frame(row(options=[{"name": "color", "values": ["black1901"]}])))
    for options, expected in ((["black1901"], 1.0), ({"color": "black1901"}, 2 / 3)):
        environment = WebShopEnvironment(task(options=options), shop)
        act(environment, *ITEM, "click[black1901]", "click[buy now]")
        assert environment.outcome().value == expected
