"""The sweep over the tiny project of `dvc_project`, whose stages read settings and leave what the table reads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dvc_project import dvc
from mlflow import MlflowClient
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

import flows.sweep as module
from flows.runners import task_runner
from flows.sweep import sweep
from flows.workspace import prepare, take_snapshot
from talentrl.config import Params, load_params, read_yaml
from talentrl.errors import InputError

SWEEP = Path("sweeps/try.yaml")
RUNS = Path("sweep_runs/try")

# `train` leaves a mark outside the workspace each time it runs; `evaluate` answers right where rl.steps allows it.
TRAIN = """\
import json, os, sys
from pathlib import Path
from talentrl.config import load_params
from talentrl.tracking import track
steps = load_params().rl.steps
with track("train", {"rl.steps": steps}, {}) as run:
    with open(os.environ["MARKS"], "a") as marks:
        marks.write(f"{steps}\\n")
    if Path(os.environ["BROKEN"]).exists() and steps == 2:
        sys.exit("no luck")
    for path in ("data/rl", "metrics"):
        Path(path).mkdir(parents=True, exist_ok=True)
    Path("data/rl/7").write_text(str(steps))
    Path("metrics/train.json").write_text(json.dumps({"steps": steps}))
"""
DVC = """\
stages:
  train:
    cmd: python train.py
    deps: [train.py]
    params: [rl.steps]
    outs: [data/rl/7]
    metrics: [metrics/train.json: {cache: false}]
  evaluate:
    cmd: cat data/rl/7 > data/answers && echo evaluating
    deps: [data/rl/7]
    params: [evaluate.tasks]
    outs: [data/answers]
"""
ROWS = """\
reference: one
shared: {evaluate: {tasks: 3}}
rows:
  one: {rl: {steps: 1}}
  two: {rl: {steps: 2}}
  again: {rl: {steps: 1}, evaluate: {tasks: 4}}
"""


@pytest.fixture
def trials(store: MlflowClient, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> Path:
    """The project with a sweep of three rows; returns the file with a line for each training."""
    outside = tmp_path_factory.mktemp("outside")
    monkeypatch.setenv("MARKS", str(outside / "marks"))
    monkeypatch.setenv("BROKEN", str(outside / "broken"))
    monkeypatch.setattr(module, "write_tables", lambda *_: "a table")  # its own tests are in tests/evaluation
    (project / "train.py").write_text(TRAIN)
    (project / "dvc.yaml").write_text(DVC)
    (project / "params.yaml").write_text("seed: 7  # of the data\n")
    (project / ".gitignore").write_text("/data/\n/scratch/\n/sweep_runs/\nmlflow.db\nmlartifacts\n/datasets/\n")
    SWEEP.parent.mkdir()
    SWEEP.write_text(ROWS)
    commit()
    return outside / "marks"


def commit() -> str:
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run(["git", "commit", "-qm", "change"], check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()


def record(row: str) -> dict:
    return json.loads((RUNS / row / "row.json").read_text())


def trained(marks: Path) -> list[str]:
    return marks.read_text().split() if marks.exists() else []


def test_rows_run_apart_and_equal_stages_run_once(prefect_server: None, trials: Path, store: MlflowClient) -> None:
    assert sweep(str(SWEEP)) == dict.fromkeys(["one", "two", "again"], "Completed")
    assert trained(trials) == ["1", "2"], "the third row has the first one's training from DVC"
    assert {row: (RUNS / row / "data/answers").read_text() for row in ("one", "two", "again")} == {
        "one": "1",
        "two": "2",
        "again": "1",
    }
    assert json.loads((RUNS / "again/metrics/train.json").read_text()) == {"steps": 1}
    assert record("two")["params"]["rl"]["steps"] == 2 and record("two")["changes"] == {"rl": {"steps": 2}}
    assert (record("two")["commit"], record("two")["dirty"]) == (
        subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip(),
        False,
    )
    status = subprocess.check_output(["git", "status", "--porcelain"], text=True)
    assert status == "" and (Path("params.yaml").read_text() == "seed: 7  # of the data\n"), "the project is as it was"

    experiment = store.get_experiment_by_name("talentrl")
    assert experiment.artifact_location == (Path.cwd() / "mlartifacts").as_uri()
    runs = store.search_runs([experiment.experiment_id])
    parents = {run.info.run_name: run.info for run in runs if "mlflow.parentRunId" not in run.data.tags}
    assert set(parents) == {"one", "two"}
    stages = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
    for run in stages:
        assert run.data.tags["sweep"] == "try" and run.data.tags["git.dirty"] == "false"
        assert run.data.tags["mlflow.parentRunId"] == parents[run.data.tags["sweep.row"]].run_id
    assert sorted(run.data.params["rl.steps"] for run in stages) == ["1", "2"]


def test_finished_rows_are_not_run_again_and_changed_ones_are(prefect_server: None, trials: Path) -> None:
    sweep(str(SWEEP))
    finished = record("one")["finished"]
    assert set(sweep(str(SWEEP)).values()) == {"Skipped"}
    assert record("one")["finished"] == finished
    SWEEP.write_text(ROWS.replace("two: {rl: {steps: 2}}", "two: {rl: {steps: 3}}"))
    assert sweep(str(SWEEP)) == {"one": "Skipped", "two": "Completed", "again": "Skipped"}
    assert trained(trials) == ["1", "2", "3"]


def test_a_named_row_is_dvcs_to_judge(prefect_server: None, trials: Path) -> None:
    sweep(str(SWEEP), ["one"])
    assert sweep(str(SWEEP), ["one"]) == {"one": "Completed"}
    assert trained(trials) == ["1"], "nothing is stale"
    Path("train.py").write_text(TRAIN + "# changed\n")
    assert sweep(str(SWEEP), ["one"]) == {"one": "Completed"}
    assert trained(trials) == ["1", "1"]
    assert record("one")["dirty"] is True and not (RUNS / "two").exists()


def test_a_failed_row_does_not_stop_the_others_and_is_run_again(prefect_server: None, trials: Path) -> None:
    broken = trials.with_name("broken")
    broken.touch()
    state = sweep(str(SWEEP), return_state=True)
    assert state.is_failed()
    assert state.message == (
        "1 of 3 rows failed\nrow two: run it again with `python -m flows.sweep sweeps/try.yaml --rows two`"
    )
    assert not (RUNS / "two/row.json").exists() and (RUNS / "again/row.json").exists()
    (RUNS / "two/scratch").mkdir()
    (RUNS / "two/scratch/checkpoint").write_text("kept")
    broken.unlink()
    assert sweep(str(SWEEP)) == {"one": "Skipped", "two": "Completed", "again": "Skipped"}
    assert (RUNS / "two/scratch/checkpoint").read_text() == "kept", "what training resumes from"


def test_a_changed_row_that_fails_has_no_result(prefect_server: None, trials: Path) -> None:
    sweep(str(SWEEP))
    trials.with_name("broken").touch()
    Path("train.py").write_text(TRAIN + "# changed\n")
    assert sweep(str(SWEEP), ["two"], return_state=True).is_failed()
    assert not (RUNS / "two/row.json").exists()


def test_the_command_line(trials: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "flows.sweep", *arguments], capture_output=True, text=True)

    for arguments, message in (
        (["nosuch.yaml"], "sweep: nosuch.yaml: no such file\n"),
        (
            [str(SWEEP), "--rows", "three"],
            "sweep: sweeps/try.yaml: found no row 'three', expected one of one, two, again\n",
        ),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    done = run(str(SWEEP), "--table")
    assert done.returncode == 0 and done.stdout.count("not run") == 3 * 6
    elsewhere = run(str(SWEEP), "--table", "kept")
    assert elsewhere.returncode == 0 and elsewhere.stdout == Path("kept/table.md").read_text() + "\n" == done.stdout


def test_a_project_without_git_or_dvc_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="a sweep needs a git and DVC project"):
        take_snapshot()
    subprocess.run(["git", "init", "-q"], check=True)
    dvc("init", "-q")
    with pytest.raises(InputError, match="with a commit"):
        take_snapshot()


def test_a_workspace_holds_the_snapshot_and_only_that(trials: Path, tmp_path: Path) -> None:
    """Later edits do not reach it; files that an earlier snapshot added are gone."""
    Path("added.py").write_text("1")
    subprocess.run(["git", "add", "added.py"], check=True)
    Path("words.txt").write_text("changed")
    with_changes = take_snapshot()
    Path("words.txt").write_text("later")
    folder = tmp_path / "runs/row"
    prepare(folder, with_changes, Params())
    prepare(folder, with_changes, Params())
    assert (folder / "words.txt").read_text() == "changed" and (folder / "added.py").exists()
    (folder / "scratch").mkdir()
    subprocess.run(["git", "reset", "-q", "--hard"], check=True)
    prepare(folder, take_snapshot(), Params(seed=9))
    assert (folder / "words.txt").read_text() == "one two three\n" and not (folder / "added.py").exists()
    assert (folder / "scratch").exists()
    assert load_params(folder / "params.yaml") == Params(seed=9)


def test_a_workspace_finds_data_outside_git_and_local_settings(trials: Path, tmp_path: Path) -> None:
    Path("datasets").mkdir()
    Path("datasets/items.jsonl").write_text("{}")
    dvc("config", "--local", "core.hardlink_lock", "true")
    values = read_yaml(Path("params.yaml")) | {"tasks": {"benchmark": "nq", "path": "datasets/items.jsonl"}}
    folder = tmp_path / "runs/row"
    prepare(folder, take_snapshot(), Params.model_validate(values))
    assert (folder / "datasets/items.jsonl").read_text() == "{}"
    shown = subprocess.check_output([sys.executable, "-m", "dvc", "config", "-l", "--local"], cwd=folder, text=True)
    assert "core.hardlink_lock=true" in shown
    assert f"cache.dir={Path.cwd() / '.dvc/cache'}" in shown


def test_an_infinite_setting_is_the_same_after_a_round_trip(prefect_server: None, trials: Path) -> None:
    SWEEP.write_text(ROWS.replace("one: {rl", "one: {retrieval: {prior_weight: .inf}, rl"))
    sweep(str(SWEEP), ["one"])
    assert sweep(str(SWEEP)) == {"one": "Skipped", "two": "Completed", "again": "Completed"}
    assert load_params(RUNS / "one/params.yaml").retrieval.prior_weight == float("inf")


def test_a_row_that_runs_elsewhere_is_left_alone(prefect_server: None, trials: Path) -> None:
    from filelock import FileLock

    RUNS.mkdir(parents=True)
    with FileLock(RUNS / ".two.lock"):
        state = sweep(str(SWEEP), return_state=True)
    assert state.is_failed() and "row two" in state.message
    assert not (RUNS / "two").exists() and (RUNS / "again/row.json").exists()


def test_rows_run_side_by_side_after_the_reference(prefect_server: None, trials: Path, store: MlflowClient) -> None:
    # `two` and `again` each wait until both train: alone, a row would never end.
    meeting = (
        "import time\nPath(os.environ['MARKS'] + f'-{os.getpid()}').touch()\n"
        "while steps > 1 and len(list(Path(os.environ['MARKS']).parent.glob('marks-*'))) < 3: time.sleep(0.1)\n"
    )
    Path("train.py").write_text(
        TRAIN.replace("steps = ", "import time\nsteps = ").replace("with track", meeting + "with track")
    )
    SWEEP.write_text(ROWS.replace("again: {rl: {steps: 1}", "again: {rl: {steps: 3}"))
    assert sweep(str(SWEEP), workers=2) == dict.fromkeys(["one", "two", "again"], "Completed")
    assert trained(trials)[0] == "1" and sorted(trained(trials)) == ["1", "2", "3"]
    runs = store.search_runs([store.get_experiment_by_name("talentrl").experiment_id])
    assert sorted(run.data.params["rl.steps"] for run in runs if "dvc.stage" in run.data.tags) == ["1", "2", "3"]


def test_a_row_that_was_killed_is_tried_once_more(prefect_server: None, trials: Path) -> None:
    suicide = "if os.path.exists(os.environ['MARKS']) and not os.path.exists('scratch'):\n    os.mkdir('scratch')\n"
    Path("train.py").write_text(TRAIN.replace("with track", suicide + "    os.kill(os.getpid(), 9)\nwith track"))
    assert sweep(str(SWEEP)) == dict.fromkeys(["one", "two", "again"], "Completed")
    assert trained(trials) == ["1", "2"] and Path("sweep_runs/try/two/scratch").exists()


@pytest.mark.parametrize("rows", [["one", "two"]])
def test_the_table_is_shown_after_each_row(prefect_server: None, trials: Path, monkeypatch, rows: list[str]) -> None:
    finished: list[int] = []
    monkeypatch.setattr(
        module, "write_tables", lambda _, folder: str(finished.append(len(list(folder.glob("*/row.json")))))
    )
    sweep(str(SWEEP), rows)
    assert finished == [1, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["dask", "ray"])
def test_rows_run_on_a_cluster(prefect_server: None, trials: Path, monkeypatch, runner: str) -> None:
    pytest.importorskip(f"prefect_{runner}")
    from prefect.settings import PREFECT_API_URL

    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value())
    assert sweep(str(SWEEP), workers=2, runner=runner) == dict.fromkeys(["one", "two", "again"], "Completed")
    assert trained(trials) == ["1", "2"]
    assert set(sweep(str(SWEEP), workers=2, runner=runner).values()) == {"Skipped"}


def test_a_missing_cluster_package_says_how_to_get_it(trials: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "prefect_dask", None)
    with pytest.raises(InputError, match=r"runner dask: prefect_dask is not installed: pip install 'talentrl\[dask\]'"):
        task_runner("dask", 2)


def test_a_flow_run_is_called_what_it_runs(prefect_server: None, trials: Path) -> None:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for rows, name in ((["two", "one"], "try: two, one"), (None, "try: all rows")):
            state = sweep(str(SWEEP), rows, return_state=True)
            assert client.read_flow_run(state.state_details.flow_run_id).name == name


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_rows_end_and_each_has_its_own_figures(prefect_server: None, trials: Path, store: MlflowClient) -> None:
    Path("train.py").write_text(TRAIN + '    run.log({"steps": steps})\n')
    rows = {f"row_{steps}": {"rl": {"steps": steps}} for steps in range(1, 51)}
    SWEEP.write_text(json.dumps({"reference": "row_1", "rows": rows}))
    commit()
    state = sweep(str(SWEEP), workers=4, return_state=True)
    assert state.result() == dict.fromkeys(rows, "Completed")
    with get_client(sync_client=True) as client:
        run_id = state.state_details.flow_run_id
        tasks = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run_id])))
    assert len(tasks) == 50 and all(task.state is not None and task.state.is_completed() for task in tasks)
    found = store.search_runs([store.get_experiment_by_name("talentrl").experiment_id])
    assert len(found) == 100 and {run.info.status for run in found} == {"FINISHED"}
    for run in found:
        parent = "mlflow.parentRunId" not in run.data.tags
        steps = run.data.metrics["train/steps" if parent else "steps"]
        assert run.data.tags["sweep.row"] == f"row_{steps:.0f}" and run.data.params["rl.steps"] == f"{steps:.0f}"
