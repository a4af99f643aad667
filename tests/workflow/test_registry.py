"""Checkpoints in the model registry: registered once, described, and with the aliases where they belong."""

import threading
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.models import Model

from talentrl.provenance import content_digest
from talentrl.tracking import registry, track
from talentrl.tracking.replay import journals, replay


def train(name: str, seed: int = 7, stage: str = "rl") -> str:
    """What a stage does that registers its checkpoint; its run's id."""
    folder = Path("data") / stage / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(f"weights of {name}")
    with track(stage, {}, {}) as run:
        run.register(folder, stage, seed)
    return run.id


def versions(store: MlflowClient) -> dict[str, str]:
    """DVC path of each version by its number."""
    return {one.version: one.tags["dvc.path"] for one in store.search_model_versions(f"name = '{registry.MODEL}'")}


def candidate(store: MlflowClient) -> str:
    version = registry.version_at(store, registry.CANDIDATE)
    assert version is not None
    return version.tags["dvc.path"]


def test_a_version_says_what_it_is_and_where_its_bytes_are(store: MlflowClient) -> None:
    run_id = train("7")
    [version] = store.search_model_versions(f"name = '{registry.MODEL}'")
    assert version.run_id == run_id and version.status == "READY"
    assert {key: version.tags[key] for key in ("stage", "seed", "dvc.path", "dvc.md5")} == {
        "stage": "rl",
        "seed": "7",
        "dvc.path": "data/rl/7",
        "dvc.md5": content_digest(Path("data/rl/7")),
    }
    [logged] = store.search_logged_models([store.get_run(run_id).info.experiment_id])
    assert version.source == logged.model_uri and logged.source_run_id == run_id
    assert [output.model_id for output in store.get_run(run_id).outputs.model_outputs] == [logged.model_id]


def test_the_signature_is_kept_and_the_weights_are_not_copied(store: MlflowClient) -> None:
    train("7")
    [file] = [path for path in Path("mlartifacts").rglob("*") if path.is_file()]
    model = Model.load(str(file))
    assert model.flavors == {"dvc": {"path": "data/rl/7", "md5": content_digest(Path("data/rl/7"))}}
    assert model.signature is not None
    assert [column["name"] for column in model.signature.inputs.to_dict()] == ["messages"]
    assert model.signature.inputs.to_dict()[0]["items"]["properties"].keys() == {"role", "content"}
    assert model.signature.outputs.to_dict() == [{"type": "string", "name": "text", "required": True}]


def test_the_newest_is_the_candidate_and_the_champion_stays(store: MlflowClient) -> None:
    train("7", stage="sft")
    assert candidate(store) == "data/sft/7"
    registry.promote(store, "1", {"low": 0.1})
    train("7")
    assert versions(store) == {1: "data/sft/7", 2: "data/rl/7"} and candidate(store) == "data/rl/7"
    champion = registry.version_at(store, registry.CHAMPION)
    assert champion is not None and champion.version == 1 and champion.tags["promotion.low"] == "0.1"


def test_no_alias_before_the_first(store: MlflowClient) -> None:
    assert registry.version_at(store, registry.CANDIDATE) is None
    train("7")
    assert registry.version_at(store, registry.CHAMPION) is None


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The server is down; `undo()` brings it up."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    patch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    return patch


def test_what_was_trained_while_the_server_was_down_is_registered_later(
    store: MlflowClient, offline: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("first")
    offline.undo()
    train("second")
    monkeypatch.setattr("talentrl.tracking.replay.is_alive", lambda process: False)
    assert len(list(replay(journals()))) == 1
    assert versions(store) == {1: "data/rl/second", 2: "data/rl/first"}
    assert candidate(store) == "data/rl/second", "it was trained last, though sent first"


WRITES = [
    "create_registered_model",
    "create_logged_model",
    "log_model_artifacts",
    "log_outputs",
    "finalize_logged_model",
    "create_model_version",
    "set_registered_model_alias",
]


@pytest.mark.parametrize("method", WRITES)
def test_a_registration_that_is_cut_short_can_be_repeated(
    store: MlflowClient, offline: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    train("7")
    offline.undo()
    monkeypatch.setattr("talentrl.tracking.replay.is_alive", lambda process: False)
    written = getattr(MlflowClient, method)

    def failing(*arguments: object, **named: object) -> None:
        written(*arguments, **named)  # written, and then the answer is lost
        raise ConnectionError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, method, failing)
        with pytest.raises(ConnectionError):
            list(replay(journals()))
    assert len(list(replay(journals()))) == 1 and journals() == []
    assert versions(store) == {1: "data/rl/7"} and candidate(store) == "data/rl/7"
    assert len(store.search_logged_models([store.get_experiment_by_name("talentrl").experiment_id])) == 1


def test_four_at_once_make_four_versions(store: MlflowClient) -> None:
    threads = [threading.Thread(target=train, args=(name, int(name))) for name in "1234"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions(store).values()) == [f"data/rl/{name}" for name in "1234"]
    assert journals() == []
