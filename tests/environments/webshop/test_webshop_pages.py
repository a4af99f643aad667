"""What pages show, and where clicks lead."""

from webshop_samples import act, frame, many, row, task

from talentrl.environments.webshop import Shop, WebShopEnvironment
from talentrl.environments.webshop.pages import State, View


def shop(**changes) -> Shop:
    return Shop.build(frame(row(**changes)))


def test_all_pages_of_a_session():
    environment = WebShopEnvironment(task(), shop())
    assert environment.reset() == "Search"
    results, item, features, again, description, _, reviews, _, option, done = act(
        environment,
        "search[cotton shirt]",
        "click[b000000001]",
        "click[features]",
        "click[< prev]",
        "click[description]",
        "click[< prev]",
        "click[reviews]",
        "click[< prev]",
        "click[red]",
        "click[buy now]",
    )
    assert results == "Back to Search [SEP] Page 1 (Total results: 1) [SEP] B000000001 [SEP] Cotton Shirt [SEP] $12.5"
    assert item == (
        "Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] size [SEP] s [SEP] x | l [SEP] Cotton Shirt"
        " [SEP] Price: $12.5 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert features == "Back to Search [SEP] < Prev [SEP] Made of cotton [SEP] Machine wash"
    assert description == "Back to Search [SEP] < Prev [SEP] Soft to wear."
    assert reviews == "Back to Search [SEP] < Prev [SEP] No reviews found"
    assert item == again == option  # a chosen option is not marked
    assert done == ""


def test_the_instruction_on_every_page_as_published():
    environment = WebShopEnvironment(task(), shop(), show_instruction=True)
    assert environment.reset() == "WebShop [SEP] Instruction: [SEP] Find me slim fit shirts [SEP] Search"
    results, index = act(environment, "search[shirt]", "click[back to search]")
    assert results.startswith("Instruction: [SEP] Find me slim fit shirts [SEP] Back to Search [SEP] Page 1 ")
    assert index == environment.reset()


def test_ten_products_a_page_and_at_most_fifty():
    environment = WebShopEnvironment(task(), many(60))
    first, second = act(environment, "search[shirt]", "click[next >]")
    assert first.startswith("Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP] B000000000 [SEP] ")
    assert second.startswith(
        "Back to Search [SEP] Page 2 (Total results: 50) [SEP] < Prev [SEP] Next > [SEP] B000000010 [SEP] "
    )
    assert first.count("$") == second.count("$") == 10
    *_, last = act(environment, "click[next >]", "click[next >]", "click[next >]")
    assert last.startswith("Back to Search [SEP] Page 5 (Total results: 50) [SEP] < Prev [SEP] B000000040 [SEP] ")
    assert "click[next >]" not in environment.admissible()


def test_exactly_ten_products_have_no_next_page():
    environment = WebShopEnvironment(task(), many(10))
    act(environment, "search[shirt]")
    assert "click[next >]" not in environment.admissible()


def test_prev_on_an_item_returns_to_its_page_of_results():
    environment = WebShopEnvironment(task(), many(30))
    _, second, _, again = act(environment, "search[shirt]", "click[next >]", "click[b000000015]", "click[< prev]")
    assert second == again


def test_results_forget_options_and_sub_pages_keep_them():
    environment = WebShopEnvironment(task(), shop())
    act(environment, "search[shirt]", "click[b000000001]", "click[red]", "click[reviews]", "click[< prev]")
    assert dict(environment._state.options) == {"color": "red"}
    act(environment, "click[< prev]", "click[b000000001]")
    assert environment._state.options == ()


def test_a_search_without_hits_shows_an_empty_page():
    environment = WebShopEnvironment(task(), shop())
    assert act(environment, "search[zebra]") == ["Back to Search [SEP] Page 1 (Total results: 0)"]
    assert environment.admissible() == ["click[back to search]"]


def test_a_second_value_replaces_the_first_of_its_option_only():
    environment = WebShopEnvironment(task(), shop())
    act(environment, "search[shirt]", "click[b000000001]", "click[red]", "click[s]", "click[blue]")
    assert dict(environment._state.options) == {"color": "blue", "size": "s"}


def test_a_value_of_two_options_belongs_to_the_later_one():
    options = [{"name": "top", "values": ["m"]}, {"name": "bottom", "values": ["m"]}]
    environment = WebShopEnvironment(task(), shop(options=options))
    act(environment, "search[shirt]", "click[b000000001]", "click[m]")
    assert environment._state.options == (("bottom", "m"),)


def test_a_button_hides_an_option_value_of_its_name():
    environment = WebShopEnvironment(task(), shop(options=[{"name": "style", "values": ["features"]}]))
    act(environment, "search[shirt]", "click[b000000001]", "click[features]")
    assert environment._state == State(View.FEATURES, (0,), 1, 0)


def test_missing_description_and_features():
    environment = WebShopEnvironment(task(), shop(description="", features=[]))
    *_, features = act(environment, "search[shirt]", "click[b000000001]", "click[features]")
    *_, description = act(environment, "click[< prev]", "click[description]")
    assert features == description == "Back to Search [SEP] < Prev"
