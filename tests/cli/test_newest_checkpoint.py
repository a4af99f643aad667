"""Reinforced checkpoints come before supervised ones, those before the pretrained model."""

import os
from pathlib import Path

import pytest

from talentrl.errors import InputError
from talentrl.layout import newest_checkpoint


def make(folder: str, changed: int) -> None:
    Path(folder).mkdir(parents=True)
    os.utime(folder, (changed, changed))


def test_stage_comes_before_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="make repro"):
        newest_checkpoint()
    make("data/model", 300)
    assert newest_checkpoint() == Path("data/model")
    make("data/sft/7", 200)
    assert newest_checkpoint() == Path("data/sft/7")
    make("data/rl/7", 100)
    assert newest_checkpoint() == Path("data/rl/7")


def test_the_last_changed_of_several_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make("data/rl/7", 100)
    make("data/rl/11", 300)
    make("data/rl/9", 200)
    # A folder that is still being written, and a file.
    make("data/rl/.13.part", 400)
    Path("data/rl/.gitignore").touch()
    Path("data/rl/notes.txt").touch()
    assert newest_checkpoint() == Path("data/rl/11")
