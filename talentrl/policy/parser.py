"""The tags of an assistant turn. Parsing never raises and looks only at the text it is given: one assistant turn,
never retrieved text."""

import re
from dataclasses import dataclass
from typing import Literal

ROUTING_STOP = ("</talent>",)
ACTION_STOP = ("</search>", "</answer>", "</action>")

_TALENT = re.compile(r"<talent>([^<>]*)</talent>")
_PASSIVE = re.compile(r"<(think|information)>.*?(?:</\1>|\Z)", re.DOTALL)
_ACTION = re.compile(r"<(search|answer|action)>((?:(?!<\1>).)*?)</\1>", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """What an execution turn asks the environment to do."""

    kind: Literal["search", "answer", "action"]
    argument: str


def parse_talent(text: str) -> str | None:
    """The id inside the first `<talent>…</talent>` of a routing turn outside `<think>`, or None."""
    found = _TALENT.search(_PASSIVE.sub(" ", text))
    return found.group(1).strip() or None if found else None


def parse_action(text: str) -> Action | None:
    """The first complete action tag outside `<think>`, with a non-empty argument; else None.

    Passages that the policy made up for itself (`<information>`) are passed over like thoughts.
    """
    for found in _ACTION.finditer(_PASSIVE.sub(" ", text)):
        argument = found.group(2).strip()
        if argument:
            return Action(found.group(1), argument)  # type: ignore[arg-type]
    return None
