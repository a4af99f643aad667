"""The episode: one row a rollout, the unit of evidence. Every figure can be recomputed from these files alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

import polars as pl

from talentrl.benchmarks.taskset import read_parquet
from talentrl.errors import InputError
from talentrl.files import atomic_path


class StopReason(StrEnum):
    """Why a rollout ended."""

    ANSWERED = "answered"
    """The environment ended the episode."""
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    """The next turn would not fit the conversation's token limit."""
    ERROR = "error"
    """The environment or retrieval raised, or the engine lost a turn; the return is null."""


@dataclass
class Turn:
    """Who said what."""

    role: str
    text: str


@dataclass
class SkillScore:
    """A skill of the talent context with the parts of its score."""

    id: str
    score: float
    bm25: float
    dense: float
    prior: float


@dataclass
class Episode:
    """One rollout. Token lists are aligned; masks are true on tokens that the policy sampled."""

    episode_id: str
    task_id: str
    benchmark: str
    split: str
    instruction: str
    answers: list[str]
    arm_id: str
    intervention: str
    talent: str | None
    rollout: int
    seed: int
    checkpoint: str
    bank_digest: str
    encoder: str
    environment: str = ""
    """Version of the environment and digest of its data."""
    task_type: str | None = None
    """The task's group in its benchmark, where it has one."""
    skills: list[SkillScore] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    routing_mask: list[bool] = field(default_factory=list)
    action_mask: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    value: float | None = None
    """The return in [0, 1] (column `return`); None when the rollout failed."""
    exact_match: float | None = None
    f1: float | None = None
    success: float | None = None
    routing_valid: bool = True
    routing_probability: float | None = None
    invalid_actions: int = 0
    searches: int = 0
    stop_reason: str = StopReason.TURN_LIMIT
    error: str | None = None
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    seconds: float = 0.0
    """The rollout's share of its batch's wall time."""


_SKILL = pl.Struct(
    {"id": pl.String(), "score": pl.Float64(), "bm25": pl.Float64(), "dense": pl.Float64(), "prior": pl.Float64()}
)
_TURN = pl.Struct({"role": pl.String(), "text": pl.String()})
EPISODE_SCHEMA = pl.Schema(
    {
        **dict.fromkeys(["episode_id", "task_id", "benchmark", "split", "instruction"], pl.String()),
        "answers": pl.List(pl.String()),
        **dict.fromkeys(["arm_id", "intervention", "talent"], pl.String()),
        "rollout": pl.Int32(),
        "seed": pl.Int64(),
        **dict.fromkeys(["checkpoint", "bank_digest", "encoder", "environment", "task_type"], pl.String()),
        "skills": pl.List(_SKILL),
        "turns": pl.List(_TURN),
        "token_ids": pl.List(pl.Int32()),
        "routing_mask": pl.List(pl.Boolean()),
        "action_mask": pl.List(pl.Boolean()),
        "logprobs": pl.List(pl.Float32()),
        "return": pl.Float64(),
        "exact_match": pl.Float64(),
        "f1": pl.Float64(),
        "success": pl.Float64(),
        "routing_valid": pl.Boolean(),
        "routing_probability": pl.Float64(),
        "invalid_actions": pl.Int32(),
        "searches": pl.Int32(),
        "stop_reason": pl.String(),
        "error": pl.String(),
        "prompt_tokens": pl.Int32(),
        "sampled_tokens": pl.Int32(),
        "seconds": pl.Float64(),
    }
)


def episodes_frame(episodes: Sequence[Episode]) -> pl.DataFrame:
    """Episodes as a frame of `EPISODE_SCHEMA`."""
    rows = [asdict(episode) for episode in episodes]
    for row in rows:
        row["return"] = row.pop("value")
    return pl.DataFrame(rows, schema=EPISODE_SCHEMA)


def write_episodes(path: Path, frame: pl.DataFrame) -> None:
    """Write a frame of episodes to Parquet, atomically."""
    with atomic_path(path) as temporary:
        frame.write_parquet(temporary)


def read_episodes(path: Path) -> pl.DataFrame:
    """Read an episode file.

    Raises:
        InputError: the file is missing or broken, or a row's token lists differ in length.
    """
    frame = read_parquet(path, EPISODE_SCHEMA)
    length = pl.col("token_ids").list.len()
    aligned = pl.all_horizontal(
        pl.col(name).list.len() == length for name in ("routing_mask", "action_mask", "logprobs")
    )
    broken = frame.filter(~aligned.fill_null(False))
    if not broken.is_empty():
        raise InputError(
            f"{path}: episode {broken['episode_id'][0]!r} has token_ids, masks and logprobs of different lengths"
        )
    return frame
