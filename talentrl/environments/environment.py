"""The protocol of environments. An environment is made for one task."""

from dataclasses import dataclass, field
from typing import Protocol

from talentrl.policy.parser import Action


@dataclass(frozen=True)
class Step:
    """What an action led to."""

    observation: str
    """Text of the next user turn; empty when the episode is over."""
    done: bool = False
    valid: bool = True
    """False when the action was malformed or not admissible: it cost a turn and changed nothing."""


@dataclass(frozen=True)
class Outcome:
    """How an episode is judged: a return in [0, 1] and named metrics."""

    value: float
    metrics: dict[str, float] = field(default_factory=dict)


class Environment(Protocol):
    """One task being worked on. It can be pickled at any time, and the same actions have the same results."""

    version: str
    """Kind, version of the rules and digest of the data, for the records: "alfworld/1 3f2a9c"."""

    def reset(self) -> str:
        """Begin, or begin again. The first observation; empty where the instruction says all."""
        ...

    def step(self, action: Action | None) -> Step:
        """Take `action`; None is a turn in which no action could be read."""
        ...

    def admissible(self) -> list[str] | None:
        """The commands that are valid now, sorted; None where any words may be said."""
        ...

    def outcome(self) -> Outcome:
        """Judge the episode as it stands; an unfinished one is judged as failed."""
        ...
