"""`talentrl compare` and `talentrl promote` over runs as the stages leave them."""

import json
from pathlib import Path

import pytest
from dvc_project import dvc
from mlflow import MlflowClient
from run_samples import evaluate, train
from typer.testing import CliRunner, Result

from talentrl.cli import app
from talentrl.tracking import registry, track

LOW, HIGH = [0.0] * 20, [1.0] * 15 + [0.0] * 5


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})


def champion(store: MlflowClient) -> int | None:
    version = registry.version_at(store, registry.CHAMPION)
    return None if version is None else version.version


def compared(*names: str) -> dict[str, dict]:
    """The rows of the comparison of two runs by metric."""
    done = run("compare", *names, "--json")
    assert done.exit_code == 0, done.output
    [comparison] = json.loads(done.output, parse_constant=pytest.fail)["comparisons"]
    return {row["metric"]: row for row in comparison["metrics"]}


def test_two_evaluations_are_paired(store: MlflowClient) -> None:
    flat, rl = evaluate("flat", LOW), evaluate("rl", HIGH)
    rows = compared(flat, rl[:8])
    row = rows["evaluate/return"]
    assert (row["first"], row["second"], row["difference"], row["tasks"]) == (0.0, 0.75, 0.75, 20)
    assert 0 < row["low"] < 0.75 < row["high"]
    assert rows["evaluate/episodes"]["note"] == "no episodes"
    shown = run("compare", flat, rl)
    assert "+0.75" in shown.output and f"evaluate@7-rl {rl[:8]}" in shown.output


def test_episodes_that_were_overwritten_are_found_in_the_cache_of_dvc(store: MlflowClient) -> None:
    before = evaluate("rl", LOW)
    dvc("add", "-q", "data/evaluation/rl-7.parquet")
    Path("data/evaluation/rl-7.parquet").unlink()
    after = evaluate("rl", HIGH)
    assert compared(before, after)["evaluate/return"]["tasks"] == 20


def test_episodes_that_are_gone_leave_bare_differences(store: MlflowClient) -> None:
    before, after = evaluate("rl", LOW), evaluate("rl", HIGH)  # the first file was overwritten, and never in the cache
    row = compared(before, after)["evaluate/return"]
    assert row["difference"] == 0.75 and row["low"] is None and row["note"] == "no episodes"


def test_runs_without_episodes_have_bare_differences(store: MlflowClient) -> None:
    train("a")
    train("b")
    first, second = (one.info.run_id for one in store.search_runs(["1"], "attributes.run_name = 'rl'"))
    assert compared(first, second)["loss"]["note"] == "no episodes"


def test_numbers_that_are_none_are_null_in_json(store: MlflowClient) -> None:
    """One task gives no interval, and a metric may be NaN."""
    ids = []
    for loss in (1.0, float("nan")):
        with track("sft", {}, {}) as one:
            one.log({"loss": loss})
        ids.append(one.id)
    assert compared(*ids)["loss"]["difference"] is None
    assert "nan" in run("compare", *ids).output
    row = compared(evaluate("rl", [0.0]), evaluate("flat", [1.0]))["evaluate/return"]
    assert row["difference"] == 1.0 and row["low"] is None and row["tasks"] == 1


def test_rows_of_a_sweep_and_pipelines_stand_for_their_stages(
    store: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for row, values in (("one", LOW), ("two", HIGH)):
        monkeypatch.setenv("TALENTRL_FLOW_RUN_ID", "flow")
        monkeypatch.setenv("TALENTRL_SWEEP_ROW", f"try/{row}")
        for seed in (7, 8):
            evaluate("rl", values, seed=seed, checkpoint=row)
            dvc("add", "-q", f"data/evaluation/rl-{seed}.parquet")
            Path(f"data/evaluation/rl-{seed}.parquet").unlink()
    row = compared("one", "try/two")["evaluate/rl/return"]
    assert row["difference"] == 0.75 and row["tasks"] == 20, "both seeds are averaged within their tasks"
    parents = [one for one in store.search_runs(["1"]) if "mlflow.parentRunId" not in one.data.tags]
    ids = {one.info.run_name: one.info.run_id for one in parents}
    assert compared(ids["one"], ids["two"])["evaluate/rl/return"]["difference"] == 0.75
    monkeypatch.setenv("TALENTRL_SWEEP_ROW", "other/one")
    evaluate("rl", LOW)
    done = run("compare", "one", "two")
    assert done.exit_code == 2 and "expected one of other/one, try/one" in done.stderr


def test_bad_names_are_one_line(store: MlflowClient) -> None:
    done = run("compare", "a", "b")
    assert done.exit_code == 2 and "no run of this project yet" in done.stderr
    ids = [evaluate("rl", LOW), evaluate("rl", HIGH)]
    for arguments, message in (
        ([ids[0]], "found 1, expected at least two"),
        ([ids[0], "nosuch"], "no run 'nosuch' in MLflow"),
        ([ids[0], "it's"], 'no run "it\'s" in MLflow'),
        ([ids[0], "evaluate"], "'evaluate' means several runs: "),
    ):
        done = run("compare", *arguments)
        assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_the_first_champion_must_beat_flat(store: MlflowClient) -> None:
    digest = train("first")
    evaluate("flat", LOW, digest)
    evaluate("rl", LOW, digest)
    refused = run("promote")
    assert refused.exit_code == 1 and champion(store) is None
    assert "version 1 (data/rl/7) minus flat on the same checkpoint: +0.000, 95 % interval +0.000 to +0.000" in (
        refused.stdout
    )
    assert refused.stderr == "Refused: expected an interval whose lower end is above 0\n"
    evaluate("rl", HIGH, digest)
    accepted = run("promote")
    assert accepted.exit_code == 0 and "is the champion now" in accepted.output and champion(store) == 1
    tags = store.get_model_version(registry.MODEL, "1").tags
    assert tags["promotion.against"] == "flat on the same checkpoint" and float(tags["promotion.low"]) > 0
    again = run("promote")
    assert again.exit_code == 2 and "is the champion already" in again.stderr


def test_a_later_one_must_beat_the_champion(store: MlflowClient) -> None:
    first = train("first")
    evaluate("rl", LOW, first)
    dvc("add", "-q", "data/evaluation/rl-7.parquet")  # as DVC keeps what the next evaluation overwrites
    registry.promote(store, "1", {})
    second = train("second")
    Path("data/evaluation/rl-7.parquet").unlink()
    evaluate("rl", [1.0, *LOW[1:]], second)
    refused = json.loads(run("promote", "--json").stdout)
    assert refused["against"] == "version 1 (data/rl/7)" and refused["promoted"] is False
    assert refused["difference"] == 0.05 and refused["low"] == 0.0 and champion(store) == 1
    evaluate("rl", HIGH, second)
    assert run("promote").exit_code == 0 and champion(store) == 2


def test_without_episodes_nothing_is_promoted(store: MlflowClient) -> None:
    train("first")
    done = run("promote")
    assert done.exit_code == 2 and "`dvc repro evaluate@7-flat` makes them" in done.stderr and champion(store) is None


def test_without_a_candidate_nothing_is_promoted(store: MlflowClient) -> None:
    with track("model", {}, {}):
        pass
    done = run("promote")
    assert done.exit_code == 2 and "`dvc repro rl` makes one" in done.stderr


@pytest.mark.parametrize("command", [["compare", "a", "b"], ["promote"]])
def test_a_server_that_is_down_is_one_line(project: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:geheim@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    done = run(*command)
    assert done.exit_code == 1 and done.stderr.startswith("Error: MLflow at http://***@127.0.0.1:9 does not answer (")
    assert "geheim" not in done.output and done.stderr.count("\n") == 1
