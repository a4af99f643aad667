"""Question answering with search: `<search>` returns passages, `<answer>` ends the episode."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from talentrl.benchmarks.taskset import Task
from talentrl.environments.environment import Outcome, Step
from talentrl.environments.scoring import exact_match, f1
from talentrl.policy.parser import Action
from talentrl.retrieval.index import Document, HybridIndex

_TAGS = re.compile(r"</?(?:information|search|answer|talent|think|action)>")


class PassageSearch:
    """Passages for a query, one line each; answers are remembered, since rollouts of a task ask alike.

    An index cannot be pickled, so a search is pickled as the call that opens it.
    """

    def __init__(self, index: HybridIndex, passages: int, reopen: Callable[[], "PassageSearch"] | None = None) -> None:
        """Search `index` for `passages` hits a query; `reopen` opens the same search in another process."""
        self._index = index
        self._passages = passages
        self._reopen = reopen
        self._remembered: dict[str, list[str]] = {}

    def __call__(self, query: str) -> list[str]:
        """The best passages for `query`, best first."""
        if query not in self._remembered:
            hits = self._index.search(query, self._passages)
            documents = self._index.documents([hit.id for hit in hits])
            self._remembered[query] = [passage_line(document) for document in documents]
        return self._remembered[query]

    def __reduce__(self) -> tuple[Any, ...]:
        if self._reopen is None:
            raise TypeError("this PassageSearch has no `reopen`, so it cannot be pickled")
        return self._reopen, ()


def passage_line(passage: Document) -> str:
    """The passage as one line, its title in front where the text does not hold it; tags of ours are taken out."""
    title, text = passage.fields.get("title", ""), passage.fields["text"]
    line = text if title in text else f"{title}: {text}"
    return " ".join(_TAGS.sub(" ", line).split())


class QAEnvironment:
    """One question. The return is exact match."""

    def __init__(self, task: Task, search: Callable[[str], Sequence[str]], data: str = "") -> None:
        """Work on `task`, reading passages through `search`; `data` is a digest of them for the record."""
        self.version = f"qa/1 {data}".rstrip()
        self._task = task
        self._search = search
        self._answer: str | None = None

    def reset(self) -> str:
        """See `Environment.reset`. The instruction says all, so the first observation is empty."""
        self._answer = None
        return ""

    def admissible(self) -> list[str] | None:
        """None: any query and any answer may be given."""
        return None

    def step(self, action: Action | None) -> Step:
        """See `Environment.step`."""
        if action is not None and action.kind == "search":
            lines = self._search(action.argument)
            return Step(f"<information>{chr(10).join(lines) or 'Nothing found.'}</information>")
        if action is not None and action.kind == "answer":
            self._answer = action.argument
            return Step("", done=True)
        return Step("No action found. Write <search>query</search> or <answer>answer</answer>.", valid=False)

    def outcome(self) -> Outcome:
        """Exact match as the return; F1 beside it."""
        match = exact_match(self._answer, self._task.answers)
        return Outcome(match, {"exact_match": match, "f1": f1(self._answer, self._task.answers)})
