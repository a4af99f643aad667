"""`tasks.stage.run_stage`, each time in a process of its own, as DVC runs it."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

SCRIPT = """\
import os
import signal
import time
from pathlib import Path
import tasks.stage
from talentrl.errors import InputError, TrainingStopped

# A shell lets what it starts in the background, such as these tests, ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

def work(params, run):
    run.log({{"loss": 1.0}})
    print("working", flush=True)
    {body}

tasks.stage.run_stage("work", work, {{"words": Path("{words}")}})
"""


def start(body: str, words: str = "words.txt") -> "subprocess.Popen[str]":
    Path("params.yaml").write_text("seed: 7\n")
    Path("script.py").write_text(SCRIPT.format(body=body, words=words))
    command = [sys.executable, "script.py"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(body: str, words: str = "words.txt") -> tuple[int, str, str]:
    process = start(body, words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def statuses(store: MlflowClient) -> set[str]:
    experiment = store.get_experiment_by_name("talentrl")
    return {run.info.status for run in store.search_runs([experiment.experiment_id])}


def test_a_good_stage(store: MlflowClient) -> None:
    code, out, err = run("assert params.model_dump()")
    assert (code, out, err) == (0, "working\n", "")
    assert statuses(store) == {"FINISHED"}


def test_bad_input_is_one_line_and_exit_code_2(store: MlflowClient) -> None:
    code, _, err = run("raise InputError('bank.json: found 3, expected 4')")
    assert (code, err) == (2, "work: bank.json: found 3, expected 4\n")
    assert statuses(store) == {"FAILED"}


def test_a_training_that_stopped_itself_is_one_line_and_exit_code_1(store: MlflowClient) -> None:
    code, _, err = run("raise TrainingStopped('step 3: loss is nan')")
    assert (code, err) == (1, "work: step 3: loss is nan\n")
    assert statuses(store) == {"FAILED"}


@pytest.mark.parametrize(
    "body",
    [
        "import torch; torch.empty(10**15)",
        "import torch; raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.')",
    ],
)
def test_a_stage_without_memory_says_which_settings_take_less(store: MlflowClient, body: str) -> None:
    code, _, err = run(body)
    assert code == 2 and err.startswith("work: out of memory (") and err.count("\n") == 1
    assert err.endswith("in params.yaml, take a smaller rollout.batch or a smaller model.max_tokens\n")


def test_a_single_process_sees_one_gpu_and_those_of_a_launcher_all(project: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    body = "print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
    assert run(body)[1] == "working\n0\n"
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run(body)[1] == "working\nNone\n"


def test_a_missing_input_and_missing_params_are_bad_input(project: Path) -> None:
    code, out, err = run("pass", words="absent.txt")
    assert (code, out) == (2, "") and err.startswith("work: words absent.txt does not exist")
    Path("params.yaml").unlink()
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "params.yaml" in done.stderr


def test_a_fault_shows_its_traceback(project: Path) -> None:
    code, _, err = run("1 / 0")
    assert code == 1 and "Traceback" in err and "ZeroDivisionError" in err


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_stage_ends_its_run_as_failed(store: MlflowClient, signum: signal.Signals) -> None:
    process = start("time.sleep(60)")
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    process.send_signal(signum)
    process.communicate(timeout=60)
    assert process.returncode not in (0, 2)
    assert statuses(store) == {"FAILED"}


def test_a_stage_is_offline_unless_the_user_says_otherwise(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import os, tasks; print(os.environ['HF_HUB_OFFLINE'])"]
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert subprocess.check_output(command) == b"1\n"
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert subprocess.check_output(command) == b"0\n"
