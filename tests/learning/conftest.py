import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from learning_samples import Killed, ToyRunner, graded, save_tiny_model, toy_runner, toy_settings, toy_tasks

from talentrl.learning.rl import TalentGRPOTrainer, train_rl

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the random model; never written to."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    save_tiny_model(folder)
    return folder


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small matrices are fastest on one thread, and sums then have one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def trainer(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TalentGRPOTrainer]:
    """Makes the trainer that `train_rl` would train, stopped before its first step."""

    def make(runner: ToyRunner | None = None, **settings: Any) -> TalentGRPOTrainer:
        caught: list[TalentGRPOTrainer] = []

        def stop(self: TalentGRPOTrainer, **_: Any) -> None:
            caught.append(self)
            raise Killed

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(TalentGRPOTrainer, "train", stop)
            train_rl(
                runner or toy_runner(tiny_model, graded),
                toy_tasks(3),
                toy_settings(**settings),
                5,
                tmp_path / "scratch",
                tmp_path / "out",
            )
        made = caught[0]
        made.model.train()
        made.current_gradient_accumulation_steps = made.settings.tasks
        return made

    return make
