"""The protocol that both engines of ALFWorld keep."""

from typing import Protocol

NOTHING_HAPPENS = "Nothing happens."
"""What the game says to a command that is not admissible; no other command is answered so."""


class Engine(Protocol):
    """One text game under way."""

    version: str
    """Name and version of the engine."""

    def reset(self) -> str:
        """Begin (again); the opening: what stands in the room, and the task."""
        ...

    def step(self, command: str) -> str:
        """Do `command`, which may have white space around it; `NOTHING_HAPPENS` if it is not admissible."""
        ...

    def admissible(self) -> list[str]:
        """The commands that change or show something now, sorted."""
        ...

    def won(self) -> bool:
        """Whether the goal is reached now."""
        ...
