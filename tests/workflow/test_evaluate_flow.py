"""The flow `evaluate`, with a stand-in for `talentrl evaluate`, which has tests of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client

import flows.evaluate as module
from flows.evaluate import Source, evaluate, plan
from talentrl.errors import InputError

STAND_IN = """\
import json, pathlib, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
if options["--checkpoint"] == "bad":
    sys.exit("no model there")
folder = pathlib.Path(options["--output"])
folder.mkdir(parents=True)
(folder / "scores.json").write_text(json.dumps({"scores": [{"system": sys.argv[1], "mean": options.get("--tasks")}]}))
"""


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("data/rl/7", "bad"):
        Path(name).mkdir(parents=True)
    Path("params.yaml").write_text("seed: 7\n")
    Path("stand_in.py").write_text(STAND_IN)
    monkeypatch.setattr(module, "TALENTRL", [sys.executable, "stand_in.py"])
    return tmp_path


def test_pairs_are_answered_and_a_failed_one_does_not_stop_the_others(prefect_server: None, checkpoints: Path) -> None:
    state = evaluate(["bad", "data/rl/7"], [Source(benchmark="nq", path="nq.jsonl")], 5, return_state=True)
    assert state.is_failed() and "1 of 2 evaluations failed\nnq with bad failed" in state.message
    assert "no model there" in state.message
    flow_run = state.state_details.flow_run_id
    with get_client(sync_client=True) as client:
        assert client.read_flow_run(flow_run).name == "bad, data/rl/7 on nq"
        (table,) = [one.data for one in client.read_artifacts() if one.flow_run_id == flow_run]
    row = {"checkpoint": "data/rl/7", "benchmark": "nq", "system": "evaluate", "mean": "5"}
    assert json.loads(table) == [row]
    assert Path("benchmark_runs/data-rl-7/nq/scores.json").exists()


def test_bad_input(checkpoints: Path) -> None:
    with pytest.raises(InputError, match="checkpoint nosuch: found no such folder"):
        plan(["nosuch"], [Source(benchmark="atlas")])
    with pytest.raises(InputError, match=r"found twice in benchmark_runs/data-rl-7/atlas"):
        plan(["data/rl/7", "data/rl/7/"], [Source(benchmark="atlas")])
    command = [sys.executable, "-m", "flows.evaluate", "--checkpoints", "bad", "--benchmarks", "hotpot"]
    environment = {"PYTHONPATH": str(Path(module.__file__).parents[1])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and "evaluate: --benchmarks: benchmark: found 'hotpot', expected" in done.stderr
