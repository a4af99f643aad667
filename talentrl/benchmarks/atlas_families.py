"""The seven question families of `atlas`: every question that the facts allow, before it is put into words.

A family is a function from the facts and a random generator to a list of `Question`s. Each question has one
right answer by construction; `owner` is the name that decides its split.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random

from talentrl.benchmarks.atlas_passages import Fact, city_facts, country_facts
from talentrl.benchmarks.atlas_phrasings import CLAIMS, FACT_NOUNS, LOOKUP
from talentrl.benchmarks.facts import City, Country, load_cities, load_countries

MIN_RATIO = 2.0
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
# Their answers are numbers, which any split may share; the country asked about decides the split instead.
NUMERIC = frozenset({"population", "area", "calling_code"})


@dataclass(frozen=True)
class Question:
    """What is asked, without words.

    `entities` are the names in the question, in order; `relation` is the fact asked; `via` the relation that
    describes an unnamed country (bridge); `claim` the value to check (verify); `direction` "max" or "min"
    (compare, superlative); `supporting` the passages needed; questions of one `stratum` are alike, and strata
    are drawn in turn.
    """

    family: str
    entities: tuple[str, ...]
    relation: str
    answers: tuple[str, ...]
    owner: str
    supporting: tuple[str, ...]
    stratum: str
    via: str | None = None
    claim: str | None = None
    direction: str | None = None


class Atlas:
    """The facts, indexed as the families need them."""

    def __init__(self, countries: Sequence[Country], cities: Sequence[City]) -> None:
        self.countries = {country.name: country for country in countries}
        self.cities = {city.name: city for city in cities}
        self.facts: dict[tuple[str, str], Fact] = {}
        for facts in (*map(country_facts, countries), *map(city_facts, cities)):
            self.facts |= {(fact.subject, fact.relation): fact for fact in facts}

    @classmethod
    def load(cls) -> "Atlas":
        """The atlas of all facts that the installed packages give."""
        return cls(load_countries(), load_cities())

    def about(self, relation: str) -> list[Fact]:
        """All facts of one relation, countries before cities, in order of name."""
        return [fact for fact in self.facts.values() if fact.relation == relation]

    def answers(self, fact: Fact) -> tuple[str, ...]:
        """The value of `fact` as it stands in its passage, then the other forms that count as right."""
        country = self.countries.get(fact.subject)
        aliases: tuple[str, ...] = ()
        if fact.relation == "country":
            aliases = self.countries[fact.value].aliases
        elif fact.relation == "capital" and country:
            aliases = country.capital_aliases
        elif fact.relation == "currency" and country:
            aliases = country.currency_aliases
        elif fact.relation == "area":
            aliases = (fact.value.removesuffix(" square kilometres"),)
        elif fact.relation == "calling_code":
            aliases = (f"+{fact.value}",)
        return (fact.value, *aliases)

    def names(self, name: str) -> tuple[str, ...]:
        """A country or city name and its aliases."""
        return (name, *(self.countries[name].aliases if name in self.countries else ()))


def lookup(atlas: Atlas, _: Random) -> Iterator[Question]:
    """One fact about one named thing."""
    for relation in LOOKUP:
        for fact in atlas.about(relation):
            owner = fact.subject if relation in NUMERIC else fact.value
            kind = "city" if fact.subject in atlas.cities else "country"
            yield Question(
                "lookup",
                (fact.subject,),
                relation,
                atlas.answers(fact),
                owner,
                (fact.passage_id,),
                f"{kind} {relation}",
            )


def bridge(atlas: Atlas, _: Random) -> Iterator[Question]:
    """One fact about a country that is described by its capital, its largest city or any city of it."""
    for via in ("capital", "country", "largest_city"):
        for link in atlas.about(via):
            country, place = (link.value, link.subject) if via == "country" else (link.subject, link.value)
            if _shares_a_word(country, place):
                continue
            for relation in FACT_NOUNS:
                fact = atlas.facts.get((country, relation))
                # "The capital of the country whose capital is Lima" would not be a question.
                if fact is None or fact.value == place or relation == via:
                    continue
                yield Question(
                    "bridge",
                    (place,),
                    relation,
                    atlas.answers(fact),
                    country if relation in NUMERIC else fact.value,
                    (link.passage_id, fact.passage_id),
                    f"{via} {relation}",
                    via=via,
                )


def compare(atlas: Atlas, random: Random) -> Iterator[Question]:
    """Which of two countries or cities has more or less; their ratio is `MIN_RATIO` or more."""
    yield from _contests("compare", 2, atlas, random)


def superlative(atlas: Atlas, random: Random) -> Iterator[Question]:
    """Which of three countries or cities has the most or least; the winner leads by `MIN_RATIO` or more."""
    yield from _contests("superlative", 3, atlas, random)


def intersect(atlas: Atlas, random: Random) -> Iterator[Question]:
    """The only country that borders both of two countries."""
    borders = atlas.about("borders")
    for first, second in combinations(borders, 2):
        common = set(first.values) & set(second.values)
        if len(common) == 1:
            name = common.pop()
            pair = [first, second]
            random.shuffle(pair)
            entities, passages = zip(*((fact.subject, fact.passage_id) for fact in pair), strict=True)
            yield Question("intersect", entities, "borders", atlas.names(name), name, passages, name)


def count(atlas: Atlas, _: Random) -> Iterator[Question]:
    """How many countries border one; two to nine."""
    for fact in atlas.about("borders"):
        number = len(fact.values)
        if 2 <= number <= 9:
            answers = (str(number), NUMBERS[number - 2])
            yield Question("count", (fact.subject,), "borders", answers, fact.subject, (fact.passage_id,), str(number))


def verify(atlas: Atlas, random: Random) -> Iterator[Question]:
    """A true and a false claim about every fact; the false value is one that a near neighbour might have."""
    for relation in CLAIMS:
        for fact in atlas.about(relation):
            wrong = _wrong_values(atlas, fact)
            if not wrong:
                continue
            for claim, answer in ((random.choice(fact.values), "yes"), (random.choice(wrong), "no")):
                yield Question(
                    "verify",
                    (fact.subject,),
                    relation,
                    (answer,),
                    fact.subject,
                    (fact.passage_id,),
                    f"{relation} {answer}",
                    claim=claim,
                )


FAMILIES: dict[str, Callable[[Atlas, Random], Iterator[Question]]] = {
    "lookup": lookup,
    "bridge": bridge,
    "compare": compare,
    "superlative": superlative,
    "intersect": intersect,
    "count": count,
    "verify": verify,
}


def measures(atlas: Atlas) -> dict[str, dict[str, int]]:
    """What can be compared: exact values by name, for each kind of thing and measure."""
    countries, cities = atlas.countries.values(), atlas.cities.values()
    return {
        "country population": {country.name: country.population for country in countries if country.population},
        "country area": {country.name: country.area for country in countries if country.area},
        "city population": {city.name: city.population for city in cities},
    }


def _contests(family: str, size: int, atlas: Atlas, random: Random) -> Iterator[Question]:
    """Each thing wins twice by each measure and direction, where there are things that it beats."""
    for label, values in measures(atlas).items():
        measure = label.split()[1]
        for winner, value in values.items():
            for direction in ("max", "min"):
                beaten = [
                    name
                    for name, other in values.items()
                    if (value >= MIN_RATIO * other if direction == "max" else other >= MIN_RATIO * value)
                ]
                for _ in range(2 if len(beaten) >= size - 1 else 0):
                    names = [winner, *random.sample(beaten, size - 1)]
                    random.shuffle(names)
                    yield Question(
                        family,
                        tuple(names),
                        measure,
                        atlas.names(winner),
                        winner,
                        tuple(atlas.facts[name, measure].passage_id for name in names),
                        f"{label} {direction}",
                        direction=direction,
                    )


def _wrong_values(atlas: Atlas, fact: Fact) -> list[str]:
    """Values that are false of the subject, from its own country and its continent."""
    home = atlas.countries[fact.value if fact.relation == "country" else fact.subject]
    near = [
        country
        for country in atlas.countries.values()
        if country is not home and country.continent == home.continent and country.continent
    ]
    if fact.relation in ("borders", "country"):
        values = {country.name for country in near}
    elif fact.relation == "capital":
        values = {city.name for city in atlas.cities.values() if city.country == home.name}
        values |= {country.capital for country in near if country.capital}
    elif fact.relation == "continent":
        values = {country.continent for country in atlas.countries.values() if country.continent}
    else:
        values = {getattr(country, fact.relation) for country in near} - {None}
    return sorted(values - set(fact.values) - {home.name})


def _shares_a_word(country: str, place: str) -> bool:
    """Whether naming the place would give the country away ("Mexico City")."""
    return bool(set(country.lower().split()) & set(place.lower().replace("-", " ").split()))
