"""What a shopper reads: a request in its words, and the pages of the shop as they are shown."""

import re
from dataclasses import dataclass

SEPARATOR = " [SEP] "
_BOUND = re.compile(r",? and price lower than ([\d.]+) dollars$")
_WORD = re.compile(r"[a-z0-9]+(?:[.'-][a-z0-9]+)*")
_LITTLE_WORDS = """
    a an and are buy find for from get hello i i'm in is it like looking me my need of on or order place please show
    some should that the to want which with would you
"""
_LITTLE = frozenset(_LITTLE_WORDS.split())
_NAMES = frozenset({"color", "size", "style", "scent", "flavor", "flavor name", "fit type", "pattern name"})


@dataclass(frozen=True)
class Request:
    """An instruction taken apart."""

    text: str
    """As it stands, without the price."""
    subject: str
    """The text without its options, and without "Find me"."""
    options: tuple[str, ...]
    """Values that it names as `name: value`."""
    bound: float | None
    """Dollars, where it states a price."""

    @property
    def words(self) -> frozenset[str]:
        """The telling words of the subject."""
        return words(self.subject)


@dataclass(frozen=True)
class Listing:
    """A product on a page of results."""

    asin: str
    title: str
    prices: tuple[float, ...]
    """One price, or two ends of a range; dollars."""


def read_request(instruction: str) -> Request:
    """Take an instruction apart, be it made ("… with color: red, and price lower than …") or a person's sentence.

    >>> read_request("Find me shirts with color: red, and size: 3x, and price lower than 30.00 dollars").options
    ('red', '3x')
    """
    found = _BOUND.search(instruction)
    text = instruction[: found.start()] if found else instruction
    before, colon, after = text.partition(": ")
    subject, with_, _ = before.rpartition(" with ")
    options: tuple[str, ...] = ()
    if colon and with_:
        options = tuple(re.split(r", and [^:,]+: ", after))
    else:
        subject = text
    return Request(text, subject.removeprefix("Find me "), options, float(found.group(1)) if found else None)


def words(text: str) -> frozenset[str]:
    """The lower-case words of `text` that tell something."""
    return frozenset(_WORD.findall(text.lower())) - _LITTLE


def read_results(page: str) -> list[Listing]:
    """The products on a page of results, in order; none on any other page."""
    strings = page.split(SEPARATOR)
    starts = [
        position
        for position in range(len(strings) - 2)
        if re.fullmatch(r"[A-Z0-9]{10}", strings[position]) and strings[position + 2].startswith("$")
    ]
    return [
        Listing(
            strings[start],
            strings[start + 1],
            tuple(float(amount) for amount in re.findall(r"\$([\d.]+)", strings[start + 2])),
        )
        for start in starts
    ]


def option_strings(page: str) -> list[str]:
    """Names and values of the options on an item page, mixed as they are shown."""
    strings = page.split(SEPARATOR)
    if "< Prev" not in strings:
        return []
    end = next((number for number, text in enumerate(strings) if text.startswith("Price: ")), 0)
    return strings[strings.index("< Prev") + 1 : max(end - 1, 0)]


def values_to_click(request: Request, page: str) -> list[str]:
    """The values on an item page that the request asks for: those that it names, else those whose words it has."""
    shown = option_strings(page)
    if request.options:
        return [value for value in request.options if value in shown]
    asked = frozenset(_WORD.findall(request.text.lower()))
    return [value for value in shown if value not in _NAMES and words(value) and words(value) <= asked]
