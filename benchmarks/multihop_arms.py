"""Arms of the multi-hop teacher by kind of question: `python -m benchmarks.multihop_arms FOLDER`.

FOLDER holds `hotpotqa`, `2wikimultihopqa` and `musique`, each with `with_context.jsonl.xz`. Every talent is played on
every train and dev item, searching two passages a query by BM25 in the embedded index of the set's pooled paragraphs.
Prints exact match as Markdown, with 95% intervals over tasks for the best talent of each kind.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from talentrl.benchmarks.multihop_teacher import TALENTS, play
from talentrl.benchmarks.qa_sets import load_qa
from talentrl.benchmarks.taskset import Task
from talentrl.environments.qa import PassageSearch, QAEnvironment
from talentrl.evaluation.statistics import mean_interval
from talentrl.policy.parser import parse_action
from talentrl.retrieval.embedded import EmbeddedIndex
from talentrl.retrieval.scoring import Scoring
from talentrl.rollouts.assembly import passage_documents

SETS = ("hotpotqa", "2wikimultihopqa", "musique")
PASSAGES = 2


class NoEncoder:
    """One vector for all texts: what is left of a search is BM25."""

    dimension = 1
    fingerprint = "none"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 1), dtype=np.float32)

    encode_queries = encode


def outcome(task: Task, talent: str, search: PassageSearch) -> float:
    """Exact match of one play."""
    world, script = QAEnvironment(task, search), play(task, talent)
    step = world.step(parse_action(next(script)))
    while not step.done:
        step = world.step(parse_action(script.send(step.observation)))
    return world.outcome().value


def kind_of(task: Task) -> str:
    """The kind of question that the set states, yes-or-no questions apart."""
    kind = task.payload.get("type") or f"{task.payload['hops']} hops"
    return f"{kind}, yes or no" if task.answers[0].lower() in ("yes", "no") else str(kind)


def main() -> None:
    """Measure and print."""
    print(f"| set | kind | tasks | {' | '.join(TALENTS)} | best |\n{'| --- ' * (len(TALENTS) + 4)}|")
    for name in SETS:
        tasks = load_qa(name, Path(sys.argv[1]) / name / "with_context.jsonl.xz")
        outcomes: dict[str, dict[str, list[float]]] = defaultdict(lambda: {talent: [] for talent in TALENTS})
        with tempfile.TemporaryDirectory() as folder:
            documents = passage_documents(tasks.passages)
            index = EmbeddedIndex.build(Path(folder), documents, NoEncoder(), Scoring(alpha=0.0))
            search = PassageSearch(index, PASSAGES)
            for split in sorted({"train", "dev"} & set(tasks.tasks["split"])):
                for task in tasks.split(split):
                    for talent in TALENTS:
                        outcomes[kind_of(task)][talent].append(outcome(task, talent, search))
            index.close()
        for kind, by_talent in sorted(outcomes.items()):
            means = {talent: float(np.mean(values)) for talent, values in by_talent.items()}
            best = max(means, key=means.__getitem__)
            interval = mean_interval(by_talent[best])
            cells = " | ".join(f"{mean:.2f}" for mean in means.values())
            print(
                f"| {name} | {kind} | {interval.n} | {cells} | {best} {interval.value:.2f} "
                f"[{interval.low:.2f}, {interval.high:.2f}] |"
            )


if __name__ == "__main__":
    main()
