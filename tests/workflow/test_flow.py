import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from dvc_project import DVC_YAML, dvc
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

from flows.child import StageFailed, stage_environment
from flows.pipeline import is_stale, pipeline, plan, run_stage
from talentrl.errors import InputError

STAGES = ["split", "count", "report"]


def statuses(results) -> dict[str, str]:
    return {row.stage: row.status for row in results}


def test_order_is_that_of_dvc_and_a_target_needs_only_its_upstream(project: Path) -> None:
    assert plan() == STAGES
    assert plan("count") == ["split", "count"]


def test_a_matrix_is_a_target(project: Path) -> None:
    matrix = "  train:\n    matrix: {seed: [0, 1]}\n    cmd: echo ${item.seed}\n    deps: [count.txt]\n"
    (project / "dvc.yaml").write_text(DVC_YAML + matrix)
    assert plan("train") == ["split", "count", "train@0", "train@1"]


def test_bad_input_is_one_line(project: Path) -> None:
    with pytest.raises(InputError, match="nosuch"):
        plan("nosuch")
    (project / "dvc.yaml").write_text("stages: [")
    with pytest.raises(InputError, match=r"dvc\.yaml"):
        plan()


def test_outside_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not inside"):
        plan()


def test_runs_stale_stages_then_skips_them_all(prefect_server: None, project: Path) -> None:
    first = pipeline()
    assert statuses(first) == dict.fromkeys(STAGES, "Completed")
    assert (project / "count.txt").read_text().strip() == "3"

    assert statuses(pipeline()) == dict.fromkeys(STAGES, "Skipped")

    # Other words, the same number of them: what only depends on the number is not run again.
    (project / "words.txt").write_text("four five six\n")
    assert statuses(pipeline()) == {"split": "Completed", "count": "Completed", "report": "Skipped"}


def test_skips_what_plain_dvc_has_run(prefect_server: None, project: Path) -> None:
    dvc("repro")
    assert not any(map(is_stale, STAGES))
    state = pipeline(return_state=True)
    assert statuses(state.result()) == dict.fromkeys(STAGES, "Skipped")
    flow_run = state.state_details.flow_run_id
    with get_client(sync_client=True) as client:
        tasks = [run for run in client.read_task_runs() if run.flow_run_id == flow_run]
        key = ArtifactFilter(key=ArtifactFilterKey(any_=["pipeline-summary"]))
        artifacts = [a for a in client.read_artifacts(artifact_filter=key) if a.flow_run_id == flow_run]
    assert {run.name: run.state_name for run in tasks} == dict.fromkeys(STAGES, "Skipped")
    table = artifacts[0].data
    assert "| split | Skipped |" in table
    assert "| metrics.json | 3" in table


def test_a_failing_stage_fails_the_flow_with_its_last_lines(prefect_server: None, project: Path) -> None:
    broken = DVC_YAML.replace("wc -w < split.txt > count.txt", "echo last words >&2; exit 3")
    (project / "dvc.yaml").write_text(broken)
    state = pipeline(return_state=True)
    assert state.is_failed() and "last words" in state.message
    with pytest.raises(StageFailed, match=r"(?s)stage count failed.*last words"):
        state.result()
    assert not (project / "metrics.json").exists()


def test_output_is_passed_on_line_by_line_and_a_progress_bar_once(project: Path) -> None:
    (project / "bar.py").write_text("print('1%\\r50%\\r100%\\n\\nend')")
    (project / "dvc.yaml").write_text("stages:\n  bar:\n    cmd: python bar.py\n")
    lines: list[str] = []
    run_stage("bar", lines.append)
    assert "100%" in lines and "end" in lines
    assert not any("50%" in line or not line for line in lines)


def test_a_stage_does_not_inherit_an_mlflow_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "abc")
    environment = stage_environment()
    assert "MLFLOW_RUN_ID" not in environment
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def test_cancelling_leaves_no_process_and_no_lock(project: Path) -> None:
    """A SIGTERM to the flow alone, as from `kill`, ends its server, dvc and the stage, and frees DVC's locks."""
    long = "stages:\n  long:\n    cmd: echo $$ > pid && sleep 300\n    outs: [x]\n"
    (project / "dvc.yaml").write_text(long)
    environment = os.environ | {"PREFECT_HOME": str(project / "prefect")}
    command = [sys.executable, "-m", "flows.pipeline"]
    flow = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        stage = wait_for_pid(project / "pid", flow)
        family = psutil.Process(flow.pid).children(recursive=True)
        assert stage in [process.pid for process in family]
        flow.send_signal(signal.SIGTERM)
        assert flow.wait(60) != 0
    finally:
        flow.kill()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert not any(json.loads((project / ".dvc/tmp/rwlock").read_text()).values())
    dvc("status")


def wait_for_pid(path: Path, flow: "subprocess.Popen[bytes]") -> int:
    for _ in range(3000):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        assert flow.poll() is None, "the flow ended before its stage began"
        time.sleep(0.1)
    raise TimeoutError(path)
