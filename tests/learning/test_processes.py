"""Supervised training in two processes, started as a profile would start it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from learning_samples import toy_runner, toy_settings, toy_tasks, weights

from talentrl import layout
from talentrl.errors import InputError
from talentrl.learning.arms import collect
from talentrl.learning.rl import train_rl
from talentrl.rollouts.episode import episodes_frame, write_episodes

REPOSITORY = Path(__file__).parents[2]
# Without GPUs, `--multi_gpu` starts processes that talk over gloo; `--cpu` starts one alone.
LAUNCH = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines=1", "--num_processes=2"]
LAUNCH += ["--mixed_precision=no", "--dynamo_backend=no", "--num_cpu_threads_per_process=1", "--main_process_port=0"]


def stage(folder: Path, *launch: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launch, "-m", "tasks.sft", "3"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def project(tiny_model: Path, tmp_path: Path) -> Path:
    """Model, demonstrations (24 conversations) and settings (two epochs of three steps) of the stage."""
    (tmp_path / layout.MODEL).parent.mkdir()
    (tmp_path / layout.MODEL).symlink_to(tiny_model)
    episodes = collect(toy_runner(tiny_model), toy_tasks(6), toy_settings(), 0).episodes
    write_episodes(tmp_path / layout.DEMOS, episodes_frame(episodes))
    settings = {"sft": {"epochs": 2, "batch": 8, "learning_rate": 3e-3}}
    (tmp_path / "params.yaml").write_text(json.dumps(settings))
    return tmp_path


def test_two_processes_learn_what_one_does_and_write_once(project: Path) -> None:
    found = {}
    for name, launch in {"one": [], "two": LAUNCH}.items():
        done = stage(project, *launch)
        assert done.returncode == 0, done.stderr
        history = json.loads((project / "metrics/history/sft-3.json").read_text())
        found[name] = (history, weights(project / layout.SFT / "3"))
    (one, one_weights), (two, two_weights) = found.values()
    assert len(one) == len(two) == 6
    assert [step["loss"] for step in two] == pytest.approx([step["loss"] for step in one], rel=1e-4)
    initial = weights(project / layout.MODEL)
    for name in one_weights:
        assert not torch.equal(one_weights[name], initial[name])
        torch.testing.assert_close(two_weights[name], one_weights[name], atol=1e-4, rtol=0)
    from mlflow import MlflowClient

    store = MlflowClient(tracking_uri=f"sqlite:///{project / layout.MLFLOW}")
    runs = store.search_runs([store.get_experiment_by_name("talentrl").experiment_id], "tags.`dvc.stage` = 'sft'")
    assert [run.info.status for run in runs] == ["FINISHED", "FINISHED"]
    assert {len(store.get_metric_history(run.info.run_id, "loss")) for run in runs} == {6}
    assert not list((project / layout.SCRATCH).iterdir()) and not (project / layout.TRACKING).exists()


def test_a_step_that_cannot_be_shared_is_refused(project: Path) -> None:
    (project / "params.yaml").write_text("sft: {batch: 3}\n")
    done = stage(project, *LAUNCH)
    assert done.returncode != 0
    assert "sft: sft.batch: found 3, expected a multiple of the 2 processes" in done.stderr
    assert not (project / layout.SFT).exists()


def test_reinforcement_in_several_processes_is_refused(tiny_model: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="reinforcement runs in one process, found 2"):
        train_rl(toy_runner(tiny_model), toy_tasks(6), toy_settings(), 0, tmp_path / "scratch", tmp_path / "out")
