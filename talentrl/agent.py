"""One question put to the agent, outside any task set, with its turns told as they end."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from talentrl.benchmarks.taskset import Task
from talentrl.policy.parser import parse_action
from talentrl.rollouts.episode import Episode, Turn
from talentrl.rollouts.interventions import Arm
from talentrl.rollouts.runner import RolloutRequest, RolloutRunner


def question_task(question: str) -> Task:
    """A question as a task without a known answer."""
    return Task("ask", benchmark="ask", split="ask", instruction=question, answers=(), payload={})


def ask_agent(runner: RolloutRunner, task: Task, talent: str | None, on_turn: Callable[[Turn], None]) -> Episode:
    """One greedy rollout under `talent`, or under the one that the policy chooses when it is None."""
    routing = runner.set_routing(talent) if talent else runner.route([task], [0])[0]
    arm = Arm(task, "forced" if talent else "routed", routing.talent)
    return runner.run([RolloutRequest(arm, routing, rollout=0, seed=0)], temperature=0.0, on_turn=on_turn)[0]


def given_answer(episode: Episode) -> str | None:
    """What the agent answered; None if it did not."""
    action = parse_action(episode.turns[-1].text) if episode.turns else None
    return action.argument if action is not None and action.kind == "answer" else None


def episode_record(episode: Episode) -> dict[str, Any]:
    """The episode as JSON data: all but its tokens, and what only a task with a known answer has."""
    record = asdict(episode)
    kept = ("checkpoint", "intervention", "talent", "routing_valid", "routing_probability", "skills", "turns")
    return {
        "question": episode.instruction,
        "answer": given_answer(episode),
        **{name: record[name] for name in (*kept, "stop_reason", "error", "seconds")},
    }
