"""The pages of the shop: where a session stands, what the page says, and where each click leads.

A page is a pure function of the state, and a click is a look-up of the next state, so a session is as small as its
state. The texts are those that the published text mode shows: the visible strings of each page, joined by " [SEP] ".
It does not mark chosen options either.
"""

from enum import Enum
from typing import NamedTuple

from talentrl.environments.webshop.catalogue import Catalogue

SEPARATOR = " [SEP] "
PAGE = 10
BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"


class View(Enum):
    """Kinds of page."""

    SEARCH = "search"
    RESULTS = "results"
    ITEM = "item"
    DESCRIPTION = "Description"
    FEATURES = "Features"
    REVIEWS = "Reviews"
    DONE = "done"


SUB_PAGES = (View.DESCRIPTION, View.FEATURES, View.REVIEWS)


class State(NamedTuple):
    """All that a session remembers."""

    view: View = View.SEARCH
    hits: tuple[int, ...] = ()
    """Positions of the products found, best first."""
    number: int = 1
    """Which page of results, from 1."""
    product: int | None = None
    """Position of the product looked at, or bought."""
    options: tuple[tuple[str, str], ...] = ()
    """Option names and chosen values."""


class Page(NamedTuple):
    """What a state shows."""

    strings: list[str]
    """Visible strings after the instruction."""
    clicks: dict[str, State]
    """Lower-case names that can be clicked, and where they lead."""


def render(state: State, catalogue: Catalogue) -> Page:
    """The page of `state`."""
    if state.view is View.SEARCH:
        return Page(["Search"], {})
    if state.view is View.RESULTS:
        return _results(state, catalogue)
    if state.view is View.ITEM:
        return _item(state, catalogue)
    if state.view is View.DONE:
        return Page([], {})
    return _sub_page(state, catalogue)


def _results(state: State, catalogue: Catalogue) -> Page:
    """Ten products. Turning pages searches again, which clears the product and its options."""
    number, total = state.number, len(state.hits)
    strings = [BACK, f"Page {number} (Total results: {total})"]
    shown = state.hits[(number - 1) * PAGE : number * PAGE]
    clicks = {}
    for position in shown:
        product = catalogue.product(position)
        clicks[product.asin.lower()] = State(View.ITEM, state.hits, number, position)
    clicks[BACK.lower()] = State()
    if number > 1:
        strings.append(PREVIOUS)
        clicks[PREVIOUS.lower()] = _found(state, number - 1)
    if number * PAGE < total:
        strings.append(NEXT)
        clicks[NEXT.lower()] = _found(state, number + 1)
    for product in map(catalogue.product, shown):
        strings += [product.asin, product.title.strip(), product.price_tag]
    return Page(strings, clicks)


def _item(state: State, catalogue: Catalogue) -> Page:
    """A product. A value that two options share belongs to the later one; a button hides a value of its name."""
    assert state.product is not None
    product = catalogue.product(state.product)
    strings, clicks = [BACK, PREVIOUS], {}
    for name, values in product.options.items():
        strings += [name, *values]
        others = tuple(option for option in state.options if option[0] != name)
        for value in values:
            clicks[value] = State(View.ITEM, state.hits, state.number, state.product, (*others, (name, value)))
    clicks[BACK.lower()] = State()
    clicks[PREVIOUS.lower()] = _found(state, state.number)
    clicks |= {view.value.lower(): state._replace(view=view) for view in SUB_PAGES}
    clicks[BUY.lower()] = state._replace(view=View.DONE)
    # No published set of products has reviews or ratings: the text mode shows this for every product.
    strings += [product.title.strip(), f"Price: {product.price_tag}", "Rating: N.A."]
    return Page([*strings, *(view.value for view in SUB_PAGES), BUY], clicks)


def _sub_page(state: State, catalogue: Catalogue) -> Page:
    assert state.product is not None
    product = catalogue.product(state.product)
    texts = {
        View.DESCRIPTION: [product.description] if product.description else [],
        View.FEATURES: list(product.features),
        View.REVIEWS: ["No reviews found"],
    }[state.view]
    clicks = {BACK.lower(): State(), PREVIOUS.lower(): state._replace(view=View.ITEM)}
    return Page([BACK, PREVIOUS, *(text.strip() for text in texts)], clicks)


def _found(state: State, number: int) -> State:
    return State(View.RESULTS, state.hits, number)
