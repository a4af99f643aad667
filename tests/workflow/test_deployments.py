"""What the Prefect UI makes its forms from."""

from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL
from prefect.utilities.callables import parameter_schema

from flows import setup
from flows.evaluate import evaluate
from flows.pipeline import pipeline
from flows.sweep import sweep
from talentrl.config import read_yaml

REPOSITORY = Path(__file__).parents[2]
FLOWS = {"pipeline": pipeline, "sweep": sweep, "evaluate": evaluate}


@pytest.mark.parametrize("name", FLOWS)
def test_every_parameter_says_what_it_is(name: str) -> None:
    schema = parameter_schema(FLOWS[name]).model_dump()
    for parameter, field in schema["properties"].items():
        assert field.get("description"), parameter


def test_choices_and_bounds_are_in_the_form() -> None:
    properties = parameter_schema(sweep).model_dump()["properties"]
    assert properties["runner"]["enum"] == ["threads", "dask", "ray"]
    assert properties["workers"]["minimum"] == 1
    source = parameter_schema(evaluate).model_dump()["definitions"]["Source"]["properties"]
    assert "hotpotqa" in source["benchmark"]["enum"]


def test_deployments_are_of_the_flows_and_their_parameters_valid() -> None:
    deployments = {one["name"]: one for one in read_yaml(REPOSITORY / "prefect.yaml")["deployments"]}
    assert set(deployments) == set(FLOWS)
    for name, deployment in deployments.items():
        assert deployment["entrypoint"] == f"flows/{name}.py:{FLOWS[name].fn.__name__}"
        FLOWS[name].validate_parameters(deployment.get("parameters", {}))
        assert not any(schedule["active"] for schedule in deployment["schedules"])


@pytest.mark.slow
def test_a_schedule_that_was_switched_on_stays_on(prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("PREFECT_API_URL", PREFECT_API_URL.value())

    def schedules() -> dict[str, tuple[bool, str]]:
        with pytest.raises(SystemExit, match="0"):
            setup.main()
        found = {one.name: one.schedules for one in client.read_deployments()}
        return {name: (schedule.active, schedule.schedule.cron) for name, [schedule] in found.items()}

    with get_client(sync_client=True) as client:
        first = schedules()
        assert set(first) == set(FLOWS) and not any(active for active, _ in first.values())
        deployment = client.read_deployment_by_name("sweep/sweep")
        client.update_deployment_schedule(deployment.id, deployment.schedules[0].id, active=True)
        assert schedules() == {**first, "sweep": (True, first["sweep"][1])}
