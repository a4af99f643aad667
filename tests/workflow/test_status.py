"""`talentrl status`: what it says of servers, stages and runs, and what when they are not there."""

import http.server
import json
import os
import threading
from pathlib import Path

import pytest
from dvc_project import DVC_YAML, dvc
from mlflow import MlflowClient
from run_samples import evaluate, train
from typer.testing import CliRunner, Result

from flows.pipeline import is_stale, plan
from talentrl import servers
from talentrl.cli import app
from talentrl.provenance import content_digest
from talentrl.stages import output_with, stage_states
from talentrl.tracking import track


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["status", *arguments], env={"COLUMNS": "200"})


def record(*arguments: str) -> dict:
    done = run("--json", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_stages_are_as_stale_as_the_flow_finds_them(project: Path) -> None:
    assert all(stage.changed for stage in stage_states()), "nothing has run"
    dvc("repro")
    assert [(stage.name, stage.changed) for stage in stage_states()] == [(name, []) for name in plan()]
    (project / "words.txt").write_text("more words")
    (project / "metrics.json").unlink()
    states = {stage.name: stage.changed for stage in stage_states()}
    assert states == {
        "split": ["deps: words.txt is modified"],
        "count": [],
        "report": ["outs: metrics.json is deleted"],
    }
    assert {name: bool(changed) for name, changed in states.items()} == {name: is_stale(name) for name in plan()}


def test_items_of_a_matrix_and_changed_commands(project: Path) -> None:
    matrix = "  train:\n    matrix: {seed: [0, 1]}\n    cmd: echo ${item.seed}\n    deps: [count.txt]\n"
    (project / "dvc.yaml").write_text(DVC_YAML + matrix)
    dvc("repro")
    (project / "dvc.yaml").write_text(DVC_YAML + matrix.replace("echo", "echo new"))
    stale = {stage.name: stage.changed for stage in stage_states() if stage.changed}
    assert stale == {"train@0": ["changed command"], "train@1": ["changed command"]}


def test_before_anything_has_run(project: Path) -> None:
    found = record()
    assert found["servers"] is None and found["runs"] == [] and found["journals"] == 0
    assert not (project / "mlflow.db").exists(), "looking creates nothing"
    shown = run().output
    assert "not running: `talentrl up` starts them" in shown and "No runs yet." in shown
    assert shown.count("stale") == 3


def test_the_last_runs_come_first(store: MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    train("a")
    evaluate("flat", [1.0], seed=8)
    monkeypatch.setenv("TALENTRL_SWEEP_ROW", "try/one")
    with pytest.raises(ValueError), track("report", {}, {}):
        raise ValueError
    with track("bank", {}, {}):
        found = record("--runs", "3")["runs"]
        assert [(one["stage"], one["status"], one["row"]) for one in found] == [
            ("bank", "RUNNING", "try/one"),
            ("report", "FAILED", "try/one"),
            ("evaluate@8-flat", "FINISHED", None),
        ]
        assert all(one["seconds"] >= 0 and one["started"].endswith("+00:00") for one in found)
        assert found[0]["run"] in [one.info.run_id for one in store.search_runs(["1"])]
    shown = run().output
    assert "rl@7" in shown and "FAILED" in shown and "0:00:0" in shown


@pytest.mark.parametrize("address", ["http://user:geheim@127.0.0.1:9", "postgresql://user:geheim@127.0.0.1:9/runs"])
def test_a_store_that_is_down_is_said_without_its_password(
    project: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with track("a", {}, {}):
        pass
    found = record()
    assert found["runs"] is None and "does not answer" in found["runs_error"] and found["journals"] == 1
    shown = run()
    assert shown.exit_code == 0 and "does not answer" in shown.output and "1 journals" in shown.output
    assert "split" in shown.output, "the rest is shown"
    for text in (shown.output, json.dumps(found)):
        assert "geheim" not in text and "user" not in text


def test_outside_a_dvc_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    found = record()
    assert found["stages"] is None and found["stages_error"].startswith("DVC: you are not inside of a DVC repository")
    assert "not inside of a DVC repository" in run().output


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_servers_that_run_are_shown_with_their_health(project: Path) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), Healthy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    servers.RUNNING.parent.mkdir()
    servers.RUNNING.write_text(json.dumps({"pid": os.getpid(), "prefect": address, "mlflow": address}))
    assert record()["servers"] == {
        "prefect": {"address": address, "answers": False},  # its health is /api/health
        "mlflow": {"address": address, "answers": True},
    }
    shown = run().output
    server.shutdown()
    assert f"prefect  {address}  does not answer" in shown and f"mlflow   {address}  running" in shown


def test_an_output_is_found_where_its_digest_is(project: Path) -> None:
    dvc("repro")
    path = Path("count.txt")
    digest = content_digest(path)
    assert output_with(path, digest) == path
    path.unlink()
    path.write_text("overwritten")
    found = output_with(path, digest)
    assert found is not None and found.read_text() == "3\n" and ".dvc" in found.parts
    assert output_with(path, "0" * 32) is None
