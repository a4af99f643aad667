"""The passages of `atlas`: one fact in one short sentence, written from a template and read back by it.

A fact is (relation, subject, value). `render` picks one of a relation's templates by a hash of the fact's id,
so passages do not depend on a seed; `read_fact` is the inverse, and is how the scripted teacher reads what a
search returned.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

from talentrl.benchmarks.facts import City, Country, load_cities, load_countries
from talentrl.benchmarks.facts_tables import WITH_ARTICLE

# {s}: subject, {v}: value. A border list names its subject twice because each neighbour's list names it too,
# and a search for a country's borders should put its own list first.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "capital": ("{v} is the capital of {s}.", "The capital of {s} is {v}.", "{s} has {v} as its capital."),
    "population": (
        "{s} has a population of about {v}.",
        "The population of {s} is about {v}.",
        "About {v} people live in {s}, counting its whole population.",
    ),
    "area": ("The area of {s} is {v}.", "{s} covers an area of {v}.", "In area, {s} measures {v}."),
    "currency": (
        "The currency of {s} is the {v}.",
        "{s} uses the {v} as its currency.",
        "People in {s} pay with the {v}, the local currency.",
    ),
    "language": (
        "The main language of {s} is {v}.",
        "{v} is the main language of {s}.",
        "The language most used in {s} is {v}.",
    ),
    "continent": ("{s} is on the continent of {v}.", "{s} belongs to the continent {v}."),
    "borders": ("The borders of {s}: {s} touches {v}.", "Borders of {s}: the neighbours of {s} are {v}."),
    "demonym": (
        "The demonym for people of {s} is {v}.",
        "People from {s} have the demonym {v}.",
        "{v} is the demonym for people from {s}.",
    ),
    "calling_code": ("The calling code of {s} is {v}.", "Calls to {s} start with the calling code {v}."),
    "domain": ("The internet domain of {s} is {v}.", "Web sites in {s} use the domain {v}."),
    "largest_city": ("The largest city of {s} is {v}.", "{v} is the largest city in {s}."),
    "country": (
        "{s} is a city in the country of {v}.",
        "The city of {s} lies in the country of {v}.",
        "{v} is the country where the city of {s} lies.",
    ),
    "location": ("On the map, {s} lies near {v}.",),
}
COUNTRY_RELATIONS = tuple(name for name in TEMPLATES if name not in ("country", "location"))


@dataclass(frozen=True)
class Fact:
    """One statement: `subject` has `value` for `relation`; a border list is joined with ", "."""

    relation: str
    subject: str
    value: str

    @property
    def passage_id(self) -> str:
        """Readable and unique, for example `peru/capital`."""
        return f"{self.subject.lower().replace(' ', '-')}/{self.relation}"

    @property
    def values(self) -> tuple[str, ...]:
        """The members of a list; a single value otherwise."""
        return tuple(self.value.split(", "))


def with_article(name: str) -> str:
    """`name` as it stands inside a sentence: "Peru", "the Netherlands"."""
    return f"the {name}" if name in WITH_ARTICLE else name


def rounded(number: int) -> str:
    """Two or three significant digits in words that people use: "32 million", "2.9 million"."""
    for size, word in ((10**9, " billion"), (10**6, " million"), (10**3, " thousand")):
        if number >= size:
            ratio = number / size
            return (f"{ratio:.1f}".removesuffix(".0") if ratio < 9.95 else f"{ratio:.0f}") + word
    return str(number)


def read_number(text: str) -> float | None:
    """The number at the start of a rounded value, or `None`."""
    match = re.match(r"([\d.]+)(?: (billion|million|thousand))?", text)
    sizes = {"billion": 1e9, "million": 1e6, "thousand": 1e3}
    return float(match[1]) * sizes.get(match[2], 1.0) if match else None


def country_facts(country: Country) -> list[Fact]:
    """What the passages say about one country."""
    area = f"{rounded(country.area)} square kilometres" if country.area else None
    values = {
        "capital": country.capital,
        "population": rounded(country.population) if country.population else None,
        "area": area,
        "currency": country.currency,
        "language": country.language,
        "continent": country.continent,
        "borders": ", ".join(country.borders) if country.borders else None,
        "demonym": country.demonym,
        "calling_code": country.calling_code,
        "domain": country.domain,
        "largest_city": country.largest_city,
    }
    # "The capital of Singapore is Singapore" would only repeat a question.
    return [
        Fact(relation, country.name, value) for relation, value in values.items() if value and value != country.name
    ]


def city_facts(city: City) -> list[Fact]:
    """What the passages say about one city."""
    north = f"latitude {abs(city.latitude)} {'north' if city.latitude >= 0 else 'south'}"
    east = f"longitude {abs(city.longitude)} {'east' if city.longitude >= 0 else 'west'}"
    return [
        Fact("country", city.name, city.country),
        Fact("population", city.name, rounded(city.population)),
        Fact("location", city.name, f"{north}, {east}"),
    ]


def all_facts() -> list[Fact]:
    """Every fact there is a passage for: countries in order of name, then cities."""
    facts = [fact for country in load_countries() for fact in country_facts(country)]
    return facts + [fact for city in load_cities() for fact in city_facts(city)]


def render(fact: Fact) -> str:
    """The sentence for `fact`."""
    templates = TEMPLATES[fact.relation]
    template = templates[crc32(fact.passage_id.encode()) % len(templates)]
    value = with_article(fact.value) if fact.relation == "country" else fact.value
    sentence = template.format(s=with_article(fact.subject), v=value)
    return sentence[0].upper() + sentence[1:]


def read_fact(line: str) -> Fact | None:
    """The fact that a passage line states, or `None` if it is no sentence of ours."""
    for relation, pattern in _patterns():
        match = pattern.fullmatch(line.strip())
        if match:
            return Fact(relation, _bare(match["s"]), _bare(match["v"]))
    return None


def _bare(name: str) -> str:
    return re.sub(r"^[Tt]he (?!Hague|Bronx|Valley)", "", name)


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    patterns = []
    for relation, templates in TEMPLATES.items():
        for template in templates:
            pattern = re.escape(template).replace(r"\{s\}", "(?P<s>.+?)", 1).replace(r"\{v\}", "(?P<v>.+)")
            patterns.append((relation, re.compile(pattern.replace(r"\{s\}", "(?P=s)"))))
    return patterns
