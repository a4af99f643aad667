"""Nine recorded sessions of people, replayed: the same pages follow, and the same parts give the same reward.

Their products are not among the 1,000, so each session gets a shop of the products that it shows, and the search
gives what it found then. Of the bought product only what the recorded reward tells is known; it is built from that.
"""

import json
from fractions import Fraction

import pytest
from webshop_samples import DATA, frame, row, task

from talentrl.environments.webshop import Shop, WebShopEnvironment
from talentrl.environments.webshop.catalogue import Catalogue
from talentrl.environments.webshop.pages import View
from talentrl.policy.parser import Action

FILE = DATA / "trajectories/webshop_human_9.jsonl"
SESSIONS = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.is_file() else []
VIEWS = {"index": View.SEARCH, "search_results": View.RESULTS, "item_page": View.ITEM, "done": View.DONE}


def bought_row(session: dict) -> dict:
    """A product with the options of the session that meets the recorded parts of its reward."""
    goal, end = session["goal"], session["steps"][-1]
    parts = end["reward_info"]
    share = Fraction(parts["title_score"]).limit_denominator(40)
    met = round(parts["r_att"] * len(goal["attributes"]))
    chosen: dict[str, set[str]] = {}
    for step in session["steps"]:
        for name, value in step.get("content", {}).get("options", {}).items():
            chosen.setdefault(name, set()).add(value)
    return row(
        end["content"]["asin"],
        title="?",
        description="",
        features=[],
        price=end["content"]["price"],
        query=goal["query"] if parts["query_match"] else "?",
        product_category=goal["product_category"] if parts["category_match"] else "?",
        attributes=goal["attributes"][:met],
        options=[{"name": name, "values": sorted(values)} for name, values in chosen.items()],
        title_nouns=[str(n) for n in range(share.numerator)] + ["?"],
    )


def build(session: dict) -> WebShopEnvironment:
    goal, end = session["goal"], session["steps"][-1]
    share = Fraction(end["reward_info"]["title_score"]).limit_denominator(40)
    rows = {end["content"]["asin"]: bought_row(session)}
    pages: dict[tuple, list[str]] = {}
    for step in session["steps"]:
        if step["page"] == "search_results":
            content = step["content"]
            found = pages.setdefault(tuple(content["keywords"]), ["X" * 10] * 10 * (content["page"] - 1))
            found[10 * (content["page"] - 1) :] = content["search_result_asins"]
    for asin in {asin for found in pages.values() for asin in found}:
        rows.setdefault(asin, row(asin))
    wanted = {key: goal[key] for key in ("query", "product_category")}
    wanted["title_nouns"] = [str(n) for n in range(share.denominator)]
    rows[goal["asin"]] = rows[goal["asin"]] | wanted if goal["asin"] in rows else row(goal["asin"], **wanted)
    catalogue = Catalogue(frame(*rows.values()))

    def search(words: str) -> tuple[int, ...]:
        found = next(asins for keywords, asins in pages.items() if " ".join(keywords) == words)
        return tuple(map(catalogue.position, [*found, *found]))  # a next page was there to be clicked

    goal = task(goal["asin"], **{key: goal[key] for key in ("attributes", "price_upper")}, options=goal["goal_options"])
    return WebShopEnvironment(goal, Shop(catalogue, search, "recorded"))  # type: ignore[arg-type]


def command(before: dict, after: dict, view: View) -> str:
    """What leads from one recorded page to the next."""
    content, page = after.get("content", {}), after["page"]
    if page == "index":
        return "click[back to search]"
    if page == "search_results" and view is View.SEARCH:
        return f"search[{' '.join(content['keywords'])}]"
    if page == "search_results":
        return "click[next >]" if view is View.RESULTS else "click[< prev]"
    if page == "item_page" and view is View.RESULTS:
        return f"click[{content['asin'].lower()}]"
    if page == "item_page" and view is View.ITEM:
        (value,) = content["options"].items() - before["content"]["options"].items()
        return f"click[{value[1]}]"
    return {"item_page": "click[< prev]", "item_sub_page": "click[description]", "done": "click[buy now]"}[page]


@pytest.mark.skipif(not SESSIONS, reason=f"no {FILE}: set TALENTRL_DATA")
@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session["session"])
def test_a_recorded_session_replays_to_its_reward(session):
    environment = build(session)
    environment.reset()
    for before, after in zip(session["steps"], session["steps"][1:], strict=False):
        if before["page"] == after["page"] == "index":
            continue  # loaded twice
        step = environment.step(Action("action", command(before, after, environment._state.view)))
        assert step.valid, step.observation
        assert environment._state.view is VIEWS.get(after["page"], View.DESCRIPTION)
        content = after.get("content", {})
        if "options" in content:
            assert dict(environment._state.options) == content["options"]
            assert environment._shop.catalogue.product(environment._state.product).asin == content["asin"]
        if after["page"] == "search_results":
            assert environment._state.number == content["page"]
            assert all(asin in step.observation for asin in content["search_result_asins"])
    assert environment.outcome().value == session["steps"][-1]["reward"]
