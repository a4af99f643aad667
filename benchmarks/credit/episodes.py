"""The semi-real part: a linear router on real sentence embeddings learns from the returns of measured arms."""

from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.credit.learners import Learner
from benchmarks.credit.measures import Curves, learning_curves
from benchmarks.credit.report import Size
from benchmarks.credit.world import World, table_world
from talentrl.config import RetrievalSection
from talentrl.errors import InputError
from talentrl.retrieval.backends import open_encoder


def read_arms(path: Path) -> tuple[list[str], np.ndarray]:
    """Instructions of the tasks, and the mean return of each under each talent (tasks, talents).

    Raises:
        InputError: there is no such file, a task lacks a talent, or no two arms of a task differ.
    """
    try:
        episodes = pl.read_parquet(path, columns=["task_id", "instruction", "talent", "return"])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: expected a Parquet file of episodes, found: {str(error).splitlines()[0]}") from error
    arms = episodes.drop_nulls("talent").group_by("task_id", "instruction", "talent").agg(pl.col("return").mean())
    table = arms.sort("talent").pivot("talent", index=["task_id", "instruction"], values="return").sort("task_id")
    returns = table.drop("task_id", "instruction").to_numpy().astype(float)
    if not returns.size or np.isnan(returns).any() or (returns == returns[:, :1]).all():
        raise InputError(f"{path}: expected episodes of every task under every talent, with arms that differ")
    return table["instruction"].to_list(), returns


def learn_from_episodes(path: Path, learners: dict[str, Learner], size: Size) -> dict[str, Curves]:
    """Curves on held-out tasks (30 %, another split for each seed), execution fixed."""
    instructions, returns_NK = read_arms(path)
    features_NF = np.asarray(open_encoder(RetrievalSection()).encode_queries(instructions), dtype=float)

    def make(worlds: int, seed: int) -> World:
        return table_world(returns_NK, features_NF, worlds, seed)

    return {
        name: learning_curves(make, learner, size.rollouts, size.worlds, size.seed)
        for name, learner in learners.items()
    }
