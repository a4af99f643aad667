"""Memories: what an agent noted about single tasks it worked on, in SkillRL's form; and the guard against leaks.

A memory tells how one task went and often names its answer. A memory of a task that is evaluated gives the answer
away, so no evaluation may retrieve it, and nothing that is evaluated may be trained on it. Skills are abstract and
hold no answers; memories are not.
"""

import json
import lzma
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from talentrl.errors import InputError


@dataclass(frozen=True)
class Memory:
    """A note about one task. `source` is the benchmark that the task came from, "" where the file does not say."""

    id: str
    environment: str
    source: str
    goal: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Leaks:
    """Ids of the memories that an evaluation must not see.

    `matched`: the goal is a question of the evaluation. `suspected`: it is none of them, but the memory says that
    it comes from a benchmark that is evaluated; the questions at hand may be a part of the benchmark's.
    """

    memories: int
    """Number of memories looked at."""
    matched: dict[str, tuple[str, ...]]
    """Benchmark -> ids of memories."""
    suspected: dict[str, tuple[str, ...]]

    @property
    def ids(self) -> frozenset[str]:
        """All of them."""
        return frozenset(name for group in (self.matched, self.suspected) for ids in group.values() for name in ids)

    def summary(self) -> str:
        """The counts in one line."""
        parts = [
            f"{benchmark} {len(self.matched.get(benchmark, ()))} + {len(self.suspected.get(benchmark, ()))}"
            for benchmark in sorted({*self.matched, *self.suspected})
        ]
        counts = f" (matched + suspected: {', '.join(parts)})" if parts else ""
        return f"{len(self.ids)} of {self.memories} memories leak{counts}"


def read_memories(path: Path) -> list[Memory]:
    """Read a JSONL file (plain or `.xz`) of SkillRL's memories.

    A line has `memory_id`, `content.task_meta.original_goal`, and optionally `env` and `tags.data_source`.

    Raises:
        InputError: the file is missing or unreadable, or a line breaks the format.
    """
    try:
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")
    except (OSError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from error
    return [_memory(line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def find_leaks(memories: Sequence[Memory], questions: Mapping[str, Iterable[str]]) -> Leaks:
    """The memories that give away `questions`, which are grouped by benchmark.

    Texts are compared by their letters and digits alone, without case.
    """
    benchmark_of = {_letters(text): benchmark for benchmark, texts in questions.items() for text in texts}
    benchmark_of.pop("", None)
    matched: dict[str, list[str]] = {}
    suspected: dict[str, list[str]] = {}
    for memory in memories:
        benchmark = benchmark_of.get(_letters(memory.goal))
        if benchmark is not None:
            matched.setdefault(benchmark, []).append(memory.id)
        elif memory.source in questions:
            suspected.setdefault(memory.source, []).append(memory.id)
    return Leaks(len(memories), _frozen(matched), _frozen(suspected))


def without_leaks(memories: Sequence[Memory], questions: Mapping[str, Iterable[str]]) -> tuple[list[Memory], Leaks]:
    """The memories that an evaluation on `questions` may see, and the account of those left out."""
    leaks = find_leaks(memories, questions)
    return [memory for memory in memories if memory.id not in leaks.ids], leaks


def refuse_leaks(memories: Sequence[Memory], questions: Mapping[str, Iterable[str]], where: str) -> None:
    """Make sure that none of `memories`, read from `where`, gives away one of `questions`.

    Raises:
        InputError: one does; the message counts them.
    """
    leaks = find_leaks(memories, questions)
    if leaks.ids:
        raise InputError(f"{where}: {leaks.summary()}, expected none in an evaluation; drop them first")


def _frozen(groups: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(ids) for name, ids in sorted(groups.items())}


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _memory(line: str, where: str) -> Memory:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from error
    content = _at(found, "content")
    name, goal = _at(found, "memory_id"), _at(content, "task_meta", "original_goal")
    for field, value in (("memory_id", name), ("content.task_meta.original_goal", goal)):
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: field {field!r}: found {value!r:.60}, expected a text")
    return Memory(name, str(_at(found, "env") or ""), str(_at(found, "tags", "data_source") or ""), goal, content)


def _at(found: Any, *keys: str) -> Any:
    """The value at a path of keys, or None."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found
