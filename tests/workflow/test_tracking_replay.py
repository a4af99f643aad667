"""A store that is down: nothing is lost, and everything arrives once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun
from typer.testing import CliRunner

from talentrl import layout
from talentrl.cli import app
from talentrl.errors import InputError
from talentrl.provenance import is_alive, process_key
from talentrl.tracking import store as tracking_store
from talentrl.tracking import track
from talentrl.tracking.journal import Journal
from talentrl.tracking.replay import journals, replay


def runs(client: MlflowClient) -> list[MlflowRun]:
    experiment = client.get_experiment_by_name("talentrl")
    return client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])


STAGE = """\
import sys, time
from pathlib import Path
from talentrl.tracking import track
with track("sft", {"p": 1}, {"words": Path("words.txt")}) as run:
    for step in range(3):
        run.log({"loss": 1.0 / (step + 1), "odd": float("nan")}, step)
    run.tag("k", "v")
    run.artifact(Path("words.txt"))
    if "wait" in sys.argv:
        run.flush()
        print("ready", flush=True)
        time.sleep(600)
"""


def play(*arguments: str, uri: str = "") -> "subprocess.Popen[str]":
    """A stage in a process of its own."""
    Path("stage.py").write_text(STAGE)
    environment = os.environ | ({"MLFLOW_TRACKING_URI": uri, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"} if uri else {})
    command = [sys.executable, "stage.py", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process: "subprocess.Popen[str]") -> str:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return errors


def assert_whole(client: MlflowClient, run: MlflowRun) -> None:
    assert run.data.params == {"p": "1"}
    assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")] == [
        (0, 1),
        (1, 0.5),
        (2, 1 / 3),
    ]
    assert len(client.get_metric_history(run.info.run_id, "odd")) == 3
    assert run.data.tags["k"] == "v" and run.data.tags["dvc.stage"] == "sft"
    assert [one.dataset.name for one in run.inputs.dataset_inputs] == ["words"]
    assert [artifact.path for artifact in client.list_artifacts(run.info.run_id)] == ["words.txt"]


def test_a_run_that_could_not_be_opened_is_sent_once(store: MlflowClient) -> None:
    errors = finished(play(uri="http://127.0.0.1:9"))
    assert errors.count("tracking failed") == 1 and "talentrl track replay" in errors
    assert len(journals()) == 1
    sent = CliRunner().invoke(app, ["track", "replay"])
    assert sent.exit_code == 0 and "1 of 1 journals sent" in sent.output
    parent, run = sorted(runs(store), key=lambda one: "mlflow.parentRunId" in one.data.tags)
    assert_whole(store, run)
    assert [one.info.status for one in (parent, run)] == ["FINISHED", "FINISHED"]
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert journals() == []
    assert CliRunner().invoke(app, ["track", "replay"]).output.strip() == "0 of 0 journals sent"


@pytest.mark.parametrize("broken", range(6))
def test_a_replay_that_is_cut_short_can_be_repeated(
    store: MlflowClient, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    finished(play(uri="http://127.0.0.1:9"))
    apply, calls = tracking_store.apply, iter(range(100))

    def failing(*arguments: object) -> None:
        apply(*arguments)  # type: ignore[arg-type]
        if next(calls) == broken:  # written, and then the answer is lost
            raise ConnectionError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(tracking_store, "apply", failing)
        result = CliRunner().invoke(app, ["track", "replay"])
    assert result.exit_code == 1 and "they stay on disk" in result.output
    assert len(list(replay(journals()))) == 1
    [run] = [one for one in runs(store) if "mlflow.parentRunId" in one.data.tags]
    assert_whole(store, run)


def test_what_fails_in_between_is_sent_later(store: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, track("rl", {}, {}) as run:
        run.log({"loss": 1.0}, 0)
        run.flush()
        patch.setattr(MlflowClient, "log_batch", lambda *_, **__: 1 / 0)
        run.log({"loss": 0.5}, 1)
    [path] = journals()
    assert list(replay([path])) == []  # its process, this one, still runs
    monkeypatch.setattr("talentrl.tracking.replay.is_alive", lambda process: False)
    assert [found[1] for found in replay([path])] == [run.id]
    assert [m.value for m in store.get_metric_history(run.id, "loss")] == [1.0, 0.5]
    assert store.get_run(run.id).info.status == "FINISHED"


def test_a_killed_run_ends_as_failed_when_the_next_opens(store: MlflowClient) -> None:
    process = play("wait")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert {run.info.status for run in runs(store)} == {"RUNNING"}
    with track("next", {}, {}):
        statuses = {run.info.run_name: run.info.status for run in runs(store)}
        assert statuses["sft"] == "FAILED" and statuses["next"] == "RUNNING"
    assert {run.info.status for run in runs(store)} == {"FAILED", "FINISHED"}


def test_a_killed_run_that_was_not_sent_is_failed_after_replay(store: MlflowClient) -> None:
    process = play("wait", uri="http://127.0.0.1:9")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    assert list(replay(journals())) == []
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(replay(journals()))) == 1
    [run] = [one for one in runs(store) if "mlflow.parentRunId" in one.data.tags]
    assert_whole(store, run)
    assert run.info.status == "FAILED"


def test_a_broken_journal_is_named(store: MlflowClient) -> None:
    layout.TRACKING.mkdir()
    path = layout.TRACKING / "abc.jsonl"
    path.write_text('not an event\n["tag", ["a", "b"]]\n')
    with pytest.raises(InputError, match=r"abc\.jsonl:1: expected an event"):
        list(replay(journals()))
    path.write_text('["run", ["x"')  # cut short by a kill: nothing to send
    assert list(replay(journals())) == [] and not path.exists()


def test_a_journal_keeps_numbers_that_are_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.jsonl")
    journal.write("metrics", [("loss", float("nan"), 1, 2), ("high", float("inf"), 1, 2)])
    [(kind, ((_, nan, *_), (_, infinite, *_)))] = journal.read()
    assert kind == "metrics" and nan != nan and infinite == float("inf")


def test_processes_of_other_machines_are_taken_to_live() -> None:
    own = process_key()
    assert is_alive(own)
    host, pid, began = own.rsplit("/", 2)
    assert not is_alive(f"{host}/{pid}/{float(began) - 60}")
    assert is_alive(f"other-{host}/{pid}/{began}")
