"""The text game on the official engine, the packages `textworld` and `alfworld`: `pip install talentrl[alfworld]`.

A reset takes seconds and a step a third of one; it is here to check our own engine, and for those who want the
original. Its planner, Fast Downward, is under the GPL-3. Importing and resetting overwrite `sys.argv`, which is put
back here.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from talentrl.environments.alfworld.pddl import read_problem
from talentrl.errors import InputError

_MISSING = "the official ALFWorld engine needs the packages textworld and alfworld: pip install 'talentrl[alfworld]'"


@dataclass(frozen=True)
class Source:
    """What the official engine plays: the parts of a `game.tw-pddl` file."""

    domain: str
    """Actions, in PDDL."""
    grammar: str
    """Commands and texts, the task among them."""
    problem: str

    @classmethod
    def of(cls, problem: str, task: str, rules: tuple[Path, Path] | None = None) -> "Source":
        """A problem with the domain and the grammar of the files `rules`, by default those of the package `alfworld`.

        Raises:
            InputError: the package or a file is missing.
        """
        try:
            domain, grammar = (path.read_text(encoding="utf-8") for path in rules or _rules_of_the_package())
        except OSError as error:
            raise InputError(f"{error.filename}: {error.strerror}, expected the rules of ALFWorld") from error
        return cls(domain, grammar.replace("UNKNOWN GOAL", task), problem)


class OfficialGame:
    """One game under way; keeps the protocol `Engine`. Pickled as its commands, which are played again."""

    def __init__(self, source: Source, where: str) -> None:
        """Load the game, which takes seconds; it stands at its beginning. `where` names it in messages.

        Raises:
            InputError: a package is missing, or the problem is broken: see `read_problem`.
        """
        read_problem(source.problem, where)  # what is broken would end the process in Fast Downward
        self._source, self._where = source, where
        self._commands: list[str] = []
        self._state: Any = None
        with _arguments_kept():
            self._environment, self.version = _new_environment()
            self._environment.load(
                {"pddl_domain": source.domain, "grammar": source.grammar, "pddl_problem": source.problem}
            )
        self.reset()

    def reset(self) -> str:
        """See `Engine.reset`. A game that stands at its beginning is not translated again."""
        if self._commands or self._state is None:
            with _arguments_kept():
                self._state = self._environment.reset()
            self._commands = []
        return str(self._state.feedback)

    def step(self, command: str) -> str:
        """See `Engine.step`."""
        self._commands.append(command)
        self._state, _, _ = self._environment.step(command)
        return str(self._state.feedback)

    def admissible(self) -> list[str]:
        """See `Engine.admissible`."""
        return list(self._state["admissible_commands"])

    def won(self) -> bool:
        """See `Engine.won`."""
        return bool(self._state["won"])

    def __reduce__(self) -> tuple[object, ...]:
        return _played, (self._source, self._where, self._commands)


def _played(source: Source, where: str, commands: list[str]) -> OfficialGame:
    game = OfficialGame(source, where)
    for command in commands:
        game.step(command)
    return game


def _new_environment() -> tuple[Any, str]:
    """An environment of `textworld`, and the name of its version.

    It loads a copy of Fast Downward of its own, which is never unloaded: unloading it may end the process.
    """
    try:
        import textworld
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.envs.pddl import PddlEnv
    except ImportError as error:
        raise InputError(f"{_MISSING} ({error})") from error
    environment = PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True))
    return AlfredDemangler(environment, shuffle=False), f"textworld-{version('textworld')}"


def _rules_of_the_package() -> tuple[Path, Path]:
    try:
        from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
    except ImportError as error:
        raise InputError(f"{_MISSING} ({error})") from error
    return Path(ALFRED_PDDL_PATH), Path(ALFRED_TWL2_PATH)


@contextmanager
def _arguments_kept() -> Iterator[None]:
    arguments = sys.argv
    try:
        yield
    finally:
        sys.argv = arguments
