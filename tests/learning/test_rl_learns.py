"""With one talent that is always rewarded, its probability rises."""

from pathlib import Path
from typing import Any

import pytest
from learning_samples import GOOD, probability, toy_runner, toy_settings, toy_tasks

from talentrl.learning.rl import train_rl


@pytest.mark.parametrize(
    "values",
    [
        {"estimator": "contrast_distinct", "arms": 3},
        {"estimator": "all_action"},
        {"estimator": "contrast_null", "arms": 2, "interventions": ["null"]},
    ],
    ids=lambda values: values["estimator"],
)
def test_the_good_talent_is_found(tiny_model: Path, tmp_path: Path, values: dict[str, Any]) -> None:
    runner = toy_runner(tiny_model, lambda episode: float(episode.talent == GOOD), turns=1, turn_tokens=1)
    before = probability(runner)
    settings = toy_settings(steps=15, rollouts=1, learning_rate=3e-3, **values)
    train_rl(runner, toy_tasks(8), settings, 0, tmp_path / "scratch", tmp_path / "out")
    assert before < 0.5
    assert probability(runner) > 0.9
