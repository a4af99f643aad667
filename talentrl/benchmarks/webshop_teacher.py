"""The scripted teacher of `webshop`: it shops by a talent's stated strategy, also where that is wrong.

It is given the instruction and what the pages say, never the goal. Success of a talent on a kind of goal is
therefore measured, not declared: see banks/webshop/README.md.
"""

from collections.abc import Callable, Generator

from talentrl.benchmarks.taskset import Task
from talentrl.benchmarks.webshop_reading import (
    Listing,
    Request,
    option_strings,
    read_request,
    read_results,
    values_to_click,
    words,
)
from talentrl.errors import InputError

Play = Generator[str, str, None]
"""Yields assistant texts and is sent observations; the last text buys, if anything was found."""

LOOKED_AT = 3
"""Products that a strategy opens at most before it settles: with reading and options, this fits in 15 turns."""


def play(task: Task, talent: str) -> Play:
    """Play `talent` on `task`: yield texts with one `<action>`, be sent pages.

    Raises:
        InputError: the talent has no script (raised by this call, not later).
    """
    if talent not in TALENTS:
        raise InputError(f"teacher: unknown talent {talent!r}, expected one of {sorted(TALENTS)}")
    return TALENTS[talent](read_request(task.instruction))


def _do(command: str, thought: str) -> Generator[str, str, str]:
    return (yield f"<think>{thought}</think><action>{command}</action>")


def _search(query: str, thought: str) -> Generator[str, str, list[Listing]]:
    return read_results((yield from _do(f"search[{query}]", thought)))


def _open(product: Listing, thought: str) -> Generator[str, str, str]:
    return (yield from _do(f"click[{product.asin.lower()}]", thought))


def _back(thought: str) -> Generator[str, str, str]:
    return (yield from _do("click[< prev]", thought))


def _choose(request: Request, page: str) -> Play:
    for value in values_to_click(request, page):
        yield from _do(f"click[{value}]", "The request names this option.")


def _buy(thought: str) -> Play:
    yield from _do("click[buy now]", thought)


def _first_hit(request: Request) -> Play:
    """The whole request as the query; the first product, as it is."""
    found = yield from _search(request.text, "I search the request as it stands.")
    if found:
        yield from _open(found[0], "The first hit is the likeliest.")
        yield from _buy("It will do as it is.")


def _options_first(request: Request) -> Play:
    """The first product, with every option that the request names."""
    found = yield from _search(request.text, "I search the request with its options.")
    if found:
        page = yield from _open(found[0], "The first hit is the likeliest.")
        yield from _choose(request, page)
        yield from _buy("The options are set.")


def _option_match(request: Request) -> Play:
    """The first of several products that offers all the options named."""
    found = yield from _search(request.text, "I search the request with its options.")
    for number, product in enumerate(found[:LOOKED_AT], start=1):
        page = yield from _open(product, "Does it offer the options?")
        offered = set(option_strings(page))
        if offered.issuperset(request.options) or number == min(LOOKED_AT, len(found)):
            yield from _choose(request, page)
            yield from _buy("These are the options there are.")
            return
        yield from _back("An option is missing.")


def _price_bound(request: Request) -> Play:
    """The first product that costs no more than the bound in any variant; without a bound, the cheapest."""
    found = yield from _search(request.subject, "I search the product and compare prices.")
    if found:
        product = _affordable(request, found)[0]
        page = yield from _open(product, f"It costs at most {max(product.prices):g} dollars.")
        yield from _choose(request, page)
        yield from _buy("The price fits.")


def _affordable(request: Request, found: list[Listing]) -> list[Listing]:
    """Those within the bound in every variant, in order; if there is none or no bound, all, cheapest first."""
    bound = request.bound if request.bound is not None else 0.0
    within = [hit for hit in found if max(hit.prices) <= bound]
    return within or sorted(found, key=lambda hit: max(hit.prices))


def _attribute_check(request: Request) -> Play:
    """Of several products, the one whose title and features say most of what is asked; options are left."""
    found = yield from _search(request.subject, "I search the product with its qualities.")
    looked_at = _affordable(request, found)[:LOOKED_AT]
    best, most = None, -1
    for product in looked_at:
        yield from _open(product, "What is it like?")
        features = yield from _do("click[features]", "I read its features.")
        met = len(request.words & words(f"{product.title} {features}"))
        yield from _back(f"It has {met} of {len(request.words)} words.")
        if met > most:
            best, most = product, met
        if met == len(request.words) or (product is looked_at[-1] and best is product):
            yield from _buy("It has most of what is asked.")
            return
        yield from _back("I look for more.")
    if best:
        yield from _open(best, "This one had most.")
        yield from _buy("It has most of what is asked.")


def _compare_titles(request: Request) -> Play:
    """The product of the first page whose title shares most words with the request."""
    found = yield from _search(request.subject, "I search the product and compare titles.")
    if found:
        best = max(found, key=lambda hit: len(request.words & words(hit.title)))
        page = yield from _open(best, "Its title says most of what is asked.")
        yield from _choose(request, page)
        yield from _buy("The title fits and the options are set.")


def _refine_query(request: Request) -> Play:
    """Two searches, a broad and a narrow one; the best product of the narrow one that the broad one has too."""
    broad = yield from _search(request.subject, "I search the product alone first.")
    yield from _do("click[back to search]", "Now with its options.")
    narrow = yield from _search(" ".join([request.subject, *request.options]), "I add the option values.")
    known = {hit.asin for hit in broad}
    if narrow:
        product = next((hit for hit in narrow if hit.asin in known), narrow[0])
        page = yield from _open(product, "Both searches have it.")
        yield from _choose(request, page)
        yield from _buy("It fits both searches.")


TALENTS: dict[str, Callable[[Request], Play]] = {
    "first-hit": _first_hit,
    "options-first": _options_first,
    "option-match": _option_match,
    "price-bound": _price_bound,
    "attribute-check": _attribute_check,
    "compare-titles": _compare_titles,
    "refine-query": _refine_query,
}
