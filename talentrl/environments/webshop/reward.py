"""WebShop's reward (Yao et al., 2022, §3.2), with the quirks of its published code.

    R = r_type · (n_attributes + n_options + [price ≤ bound]) / (|attributes| + |options| + 1)

Matching is fuzzy: thefuzz's token set ratio above 85. R is 1 exactly where all that was asked for is there.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from thefuzz import fuzz

from talentrl.environments.webshop.catalogue import Product

THRESHOLD = 85
# The published list, in its order: the first that is in a value stands for it.
_COLOURS = """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
    caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream
    crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather
    indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha
    multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal
    rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise
    violet walnut wheat white wine yellow
"""
COLOURS = _COLOURS.split()


class Goal(NamedTuple):
    """What was asked for."""

    product: Product
    """The product that the goal was made from."""
    attributes: tuple[str, ...]
    options: tuple[str | tuple[str, str], ...]
    """Human goals list values; synthetic ones pairs of name and value, which are compared in another way."""
    price_upper: float


class Reward(NamedTuple):
    """The parts of a reward; counts are of matches."""

    value: float
    type: float
    attributes: int
    options: int
    price: bool


def reward(goal: Goal, bought: Product, chosen: Mapping[str, str]) -> Reward:
    """Judge the purchase of `bought` with the `chosen` values of its options."""
    kind = type_reward(goal.product, bought)
    attributes = matched_attributes(goal.attributes, bought)
    options = matched_options(goal.options, list(chosen.values()))
    price = bought.price <= goal.price_upper
    met = (attributes + options + price) / (len(goal.attributes) + len(goal.options) + 1)
    return Reward(met * kind, kind, attributes, options, price)


def type_reward(wanted: Product, bought: Product) -> float:
    """Whether the products are of a kind: 1, 0.5, 0.1 or 0.

    Later rules override: without a common noun in the titles it is 0, even if query and category agree. The share of
    nouns counts the repeats of the wanted title below the line only.
    """
    same_query = wanted.query == bought.query
    same_category = len(_categories(wanted) & _categories(bought)) >= 2
    nouns = wanted.title_nouns
    share = len(set(nouns) & set(bought.title_nouns)) / len(nouns) if nouns else 0.2
    if share == 0:
        return 0.0
    if share < 0.1:
        return 0.1
    return 1.0 if same_query or same_category or share > 0.2 else 0.5


def matched_attributes(wanted: Sequence[str], bought: Product) -> int:
    """How many are like an attribute of the product, or stand in its title, features or description."""
    return sum(
        any(_alike(attribute, found) for found in bought.attributes) or any(attribute in text for text in bought.texts)
        for attribute in wanted
    )


def matched_options(wanted: Sequence[str | tuple[str, str]], chosen: Sequence[str]) -> int:
    """How many are like a chosen value, of whichever option; colours are compared as colours."""
    values = [normal_colour(value) for value in chosen]
    return sum(any(_alike(value, option) for value in values) for option in map(normal_colour, wanted))


def normal_colour(option: str | tuple[str, str]) -> str:
    """The first of `COLOURS` that is in a value, else the value.

    A pair is searched as a pair: a colour must be the whole value (or name). Any other pair is compared as its
    Python notation, whose words hold those of the value, so the value itself always matches.
    """
    return next((colour for colour in COLOURS if colour in option), str(option))


def _categories(product: Product) -> set[str]:
    return {part.strip() for part in product.product_category.split("›")}


def _alike(first: str, second: str) -> bool:
    return fuzz.token_set_ratio(first, second) > THRESHOLD
