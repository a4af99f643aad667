"""A project for rollout tests: two talents, an engine that says what a test tells it to, a small environment."""

from collections.abc import Callable, Sequence
from typing import Any

from tiny_models import byte_tokenizer

from talentrl.bank.bank import SkillBank
from talentrl.bank.skill import Skill
from talentrl.bank.talent import Talent
from talentrl.benchmarks.taskset import Task
from talentrl.environments.environment import Outcome, Step
from talentrl.environments.qa import QAEnvironment
from talentrl.errors import InputError
from talentrl.policy.chat import ChatFormat
from talentrl.policy.engine import Generation, Sampling
from talentrl.policy.parser import Action
from talentrl.retrieval.index import Hit
from talentrl.rollouts.interventions import Arm
from talentrl.rollouts.runner import Limits, RolloutRequest, RolloutRunner

# Each of these is one token, so that a layout can be read token by token.
WORDS = (
    *(f"<{mark}{tag}>" for tag in ("talent", "search", "answer", "information") for mark in ("", "/")),
    "Strategy: ",
    "No strategy.",
    "Go on.",
    "Be quick.",
    "find: ",
    "read: ",
    "Do it.",
    "fact",
    "none",
)
CHAT = ChatFormat(byte_tokenizer("plain", WORDS))
BANK = SkillBank(
    skills={
        "find": Skill("find", "find", "Finds.", body="Do it."),
        "read": Skill("read", "read", "Reads.", body="Do\nit."),
    },
    talents={
        "a": Talent("a", "a", "first", "Go on.", {"find": 1.0}),
        "b": Talent("b", "b", "second", "Be quick.", {"read": 0.5}),
    },
)
TASK = Task("t1", "atlas", "test", "q?", ("y",), {})
OTHER = Task("t2", "atlas", "test", "other?", ("y",), {})
LIMITS = Limits(turns=4, routing_tokens=16, turn_tokens=64, max_tokens=2048, skills=1, batch=8)


class ScriptedEngine:
    """A generation engine that replies to a conversation (as text, with delimiters) as it is told to."""

    def __init__(self, reply: Callable[[str, int], str | list[int]]) -> None:
        self.reply = reply
        self.calls: list[tuple[list[list[int]], Sampling, list[int]]] = []

    def generate(self, prompts: Sequence[list[int]], sampling: Sampling, seeds: Sequence[int]) -> list[Generation]:
        self.calls.append(([list(ids) for ids in prompts], sampling, list(seeds)))
        turns = []
        for prompt, seed in zip(prompts, seeds, strict=True):
            said = self.reply(CHAT.tokenizer.decode(prompt), seed)
            ids = (CHAT.encode(said) if isinstance(said, str) else said)[: sampling.max_tokens]
            turns.append(Generation(ids, [-0.25 * (i + 1) for i in range(len(ids))], stopped=True))
        return turns

    def score(self, prompts: Sequence[list[int]], continuations: Sequence[list[int]]) -> list[list[float]]:
        return [[-0.5] * len(ids) for ids in continuations]

    def reset(self) -> None:
        pass


class FixedRetriever:
    """The talent's own skill, or `find` without a talent. `requests` are the talents it was asked with."""

    def __init__(self) -> None:
        self.requests: list[str | None] = []

    def retrieve(self, query: str, talent_id: str | None, k: int) -> list[Hit]:
        if query.startswith("break"):
            raise RuntimeError("no index")
        self.requests.append(talent_id)
        id, prior = next(iter(BANK.talents[talent_id].skills.items())) if talent_id else ("find", 0.0)
        return [Hit(id, 1.5 + prior, 0.75, 0.25, prior)][:k]


class FragileEnvironment(QAEnvironment):
    """Finds `fact`; fails when asked for `crash`, in its outcome for `outcome`; a user's fault for `user`."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, lambda query: ["fact"])
        self._failing = False

    def step(self, action: Action | None) -> Step:
        if action is not None and action.argument == "crash":
            raise KeyError("the server is gone")
        if action is not None and action.argument == "user":
            raise InputError("index: no such file")
        self._failing |= action is not None and action.argument == "outcome"
        return super().step(action)

    def outcome(self) -> Outcome:
        if self._failing:
            raise RuntimeError("no judge")
        return super().outcome()


def make_runner(reply: Callable[[str, int], Any], limits: Limits = LIMITS) -> RolloutRunner:
    return RolloutRunner(
        ScriptedEngine(reply),
        CHAT,
        BANK,
        FixedRetriever(),  # type: ignore[arg-type]
        FragileEnvironment,
        limits,
        checkpoint="model@1",
        encoder="encoder-1",
    )


def in_turn(*texts: str) -> Callable[[str, int], str]:
    """Replies with the text of the conversation's turn: turn 0 is the first after the routing turn."""

    def reply(conversation: str, seed: int) -> str:
        return texts[min(conversation.count("<assistant>") - 2, len(texts) - 1)]

    return reply


def request(
    runner: RolloutRunner,
    intervention: Any = "forced",
    talent: str | None = "b",
    task: Task = TASK,
    rollout: int = 0,
    seed: int = 5,
) -> RolloutRequest:
    """A rollout in an arm; the routing turn of a `routed` arm has the log-probabilities of its score."""
    scored = intervention == "routed"
    routing = runner.score_talents([task])[0][talent or ""] if scored else runner.set_routing(talent)
    return RolloutRequest(Arm(task, intervention, talent), routing, rollout, seed)
