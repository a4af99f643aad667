import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from dvc_project import dvc
from mlflow import MlflowClient
from mlflow.entities import Run as MlflowRun

from talentrl.errors import InputError
from talentrl.provenance import content_digest
from talentrl.tracking import flatten, track


def runs(client: MlflowClient) -> tuple[list[MlflowRun], list[MlflowRun]]:
    """Parents and stages in the order they started."""
    experiment = client.get_experiment_by_name("talentrl")
    found = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])
    parents = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    return parents, [run for run in found if run not in parents]


STAGE = """\
import sys
from talentrl.tracking import track
with track(sys.argv[1], {}, {}) as run:
    run.log({"value": float(sys.argv[2])})
"""


def test_stages_of_one_dvc_repro_share_a_parent(store: MlflowClient, project: Path) -> None:
    (project / "stage.py").write_text(STAGE)
    (project / "dvc.yaml").write_text(
        "stages:\n"
        "  a: {cmd: python stage.py a 1 && touch a, deps: [words.txt], outs: [a]}\n"
        "  b: {cmd: python stage.py b 2 && touch b, deps: [a], outs: [b]}\n"
    )
    dvc("repro")
    parents, stages = runs(store)
    assert [run.info.run_name for run in parents] == ["pipeline"]
    assert [run.info.run_name for run in stages] == ["a", "b"]
    assert {run.data.tags["mlflow.parentRunId"] for run in stages} == {parents[0].info.run_id}
    assert {run.info.status for run in parents + stages} == {"FINISHED"}
    assert [run.data.metrics["value"] for run in stages] == [1, 2]
    dvc("repro", "--force", "--single-item", "b")
    assert len(runs(store)[0]) == 2


def test_stages_of_one_flow_run_share_a_parent(store: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALENTRL_FLOW_RUN_ID", "flow-1")
    monkeypatch.setenv("MLFLOW_RUN_ID", "not-ours")
    with track("a", {}, {}):
        assert runs(store)[0][0].info.status == "RUNNING"
    with track("b", {}, {}):
        pass
    parents, stages = runs(store)
    assert len(parents) == 1 and len(stages) == 2
    assert {run.data.tags["prefect.flow_run_id"] for run in parents + stages} == {"flow-1"}


def test_a_parent_sums_up_its_stages(store: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALENTRL_FLOW_RUN_ID", "flow-1")
    for seed, loss in ((7, 1.0), (8, 3.0), (7, 2.0)):
        with track("sft", {"sft": {"epochs": 1}}, {}, {"seed": str(seed)}) as run:
            run.log({"loss": 9.0}, 0)
            run.log({"loss": loss}, 1)
    with pytest.raises(ValueError), track("sft", {}, {}, {"seed": "9"}) as run:
        run.log({"loss": 100.0})
        raise ValueError
    with track("evaluate", {"rl": {"steps": 2}}, {}, {"seed": "7"}) as run:
        run.log({"evaluate/rl/return": 0.5})
    [parent], _ = runs(store)
    assert parent.data.metrics == {"sft/loss": 2.5, "evaluate/rl/return": 0.5}, "the newest of each seed, averaged"
    assert parent.data.params == {"sft.epochs": "1", "rl.steps": "2"}


def test_a_named_parent_is_used(store: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = store.create_experiment("talentrl")
    parent = store.create_run(experiment, run_name="trial").info.run_id
    monkeypatch.setenv("TALENTRL_PARENT_RUN_ID", parent)
    with track("a", {}, {}):
        pass
    parents, stages = runs(store)
    assert [run.info.run_id for run in parents] == [stages[0].data.tags["mlflow.parentRunId"]] == [parent]


def test_what_is_recorded(store: MlflowClient, project: Path) -> None:
    dvc("repro")
    params = {"rl": {"lr": 1.0e-6, "names": ["x", "y"], "odd@key": None}, "long": "z" * 10_000}
    inputs = {"words": project / "split.txt"}
    with track("rl", params, inputs, {"dvc.out": "x"}) as run:
        for step in range(3):
            run.log({"loss": 1.0 / (step + 1), "share@5[top]": float("nan")}, step)
        run.tag("skillbank.digest", "0123")
        run.artifact(project / "words.txt")
    [recorded] = runs(store)[1]
    assert recorded.info.run_id == run.id
    logged = recorded.data.params
    assert {k: logged[k] for k in ("rl.lr", "rl.names", "rl.odd_key")} == {
        "rl.lr": "1e-06",
        "rl.names": '["x", "y"]',
        "rl.odd_key": "null",
    }
    assert len(logged["long"]) == 6000
    assert [(m.step, m.value) for m in store.get_metric_history(run.id, "loss")] == [
        (0, 1),
        (1, 0.5),
        (2, 1 / 3),
    ]
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    tags = recorded.data.tags
    assert tags["git.commit"] == head and tags["git.dirty"] == "false" and tags["dvc.stage"] == "rl"
    assert len(tags["dvc.lock.sha256"]) == 64 and tags["skillbank.digest"] == "0123" and tags["dvc.out"] == "x"
    [dataset] = recorded.inputs.dataset_inputs
    assert dataset.dataset.name == "words" and dataset.dataset.digest in (project / "dvc.lock").read_text()
    assert [a.path for a in store.list_artifacts(run.id)] == ["words.txt"]
    assert (project / "mlartifacts").is_dir()


def test_a_changed_tracked_file_is_recorded_as_dirty(store: MlflowClient, project: Path) -> None:
    (project / "words.txt").write_text("changed")
    with track("a", {}, {}):
        pass
    assert runs(store)[1][0].data.tags["git.dirty"] == "true"


def test_many_params_and_metrics_are_sent_in_batches(store: MlflowClient) -> None:
    with track("a", {f"p{i}": i for i in range(250)}, {}) as run:
        run.log({f"m{i}": i for i in range(1500)})
    [recorded] = runs(store)[1]
    assert len(recorded.data.params) == 250 and len(recorded.data.metrics) == 1500


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_any_exception_ends_the_run_as_failed(store: MlflowClient, error: type[BaseException]) -> None:
    with pytest.raises(error), track("a", {}, {}) as run:
        run.log({"loss": 1.0})
        raise error
    parents, stages = runs(store)
    assert [run.info.status for run in parents + stages] == ["FAILED", "FAILED"]
    assert stages[0].data.metrics == {"loss": 1.0}


def test_runs_in_threads_hold_only_their_own_metrics(store: MlflowClient) -> None:
    def work(name: str) -> None:
        with track(name, {}, {}) as run:
            run.log({name: 1.0})

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parents, stages = runs(store)
    assert len(parents) == 1
    assert {run.info.run_name: set(run.data.metrics) for run in stages} == {"a": {"a"}, "b": {"b"}}


def test_six_processes_on_a_fresh_store(project: Path) -> None:
    (project / "stage.py").write_text(STAGE)
    environment = os.environ | {"TALENTRL_FLOW_RUN_ID": "flow-6"}
    command = [sys.executable, "stage.py"]
    workers = [
        subprocess.Popen([*command, f"s{i}", str(i)], env=environment, stderr=subprocess.PIPE, text=True)
        for i in range(6)
    ]
    errors = [worker.communicate(timeout=300)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 6
    assert not any("tracking failed" in error for error in errors), errors
    parents, stages = runs(MlflowClient(tracking_uri=f"sqlite:///{project / 'mlflow.db'}"))
    assert len(parents) == 1 and parents[0].info.status == "FINISHED"
    assert {run.info.run_name: run.data.metrics["value"] for run in stages} == {f"s{i}": i for i in range(6)}


@pytest.mark.parametrize("uri", ["file:./mlruns", "file:///tmp/mlruns", "./mlruns", "mlruns"])
def test_a_folder_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(InputError, match=r"MLFLOW_TRACKING_URI.*expected a database"), track("a", {}, {}):
        pytest.fail("the stage must not start")


def test_without_a_server_the_stage_completes_with_one_warning(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = False
    with caplog.at_level(logging.WARNING), track("a", {"p": 1}, {}) as run:
        run.log({"loss": 1.0})
        run.tag("k", "v")
        done = True
    assert done
    assert [record.message.split("(")[0] for record in caplog.records] == [
        "MLflow tracking failed; the stage goes on, and `talentrl track replay` will send what it records "
    ]


def test_a_server_that_fails_meanwhile_does_not_stop_the_stage(
    store: MlflowClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What waits is sent at the end, when it answers again."""
    with track("a", {}, {}) as run, monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", lambda *_, **__: 1 / 0)
        for step, loss in enumerate([1.0, 0.5]):
            run.log({"loss": loss}, step)
            run.flush()
        patch.undo()
    assert sum("tracking failed" in record.message for record in caplog.records) == 1
    assert [m.value for m in store.get_metric_history(run.id, "loss")] == [1.0, 0.5]
    assert runs(store)[1][0].info.status == "FINISHED"


def test_content_digest_is_the_one_dvc_records(project: Path) -> None:
    folder = project / "folder"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "x.txt").write_text("x")
    (folder / "a.txt").write_text("ä")
    (folder / "b.txt").write_text("")
    dvc("add", "-q", "folder")
    assert f"md5: {content_digest(folder)}\n" in (project / "folder.dvc").read_text()


def test_flatten() -> None:
    assert flatten({"a": {"b": 1, "c": {"d": None}}, "e": [1]}) == {"a.b": 1, "a.c.d": None, "e": [1]}
