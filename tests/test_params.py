"""The params.yaml and the profiles that are shipped."""

import shutil
from pathlib import Path

import pytest
from pydantic import BaseModel

from talentrl.config import Params, apply_profiles, load_params, read_yaml

REPOSITORY = Path(__file__).parents[1]
PARAMS = REPOSITORY / "params.yaml"
PROFILES = sorted((REPOSITORY / "profiles").glob("*.yaml"))


def keys_of(model: type[BaseModel], prefix: str = "") -> list[str]:
    """All keys of a section and of those inside it, in order."""
    keys = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        is_section = isinstance(inner, type) and issubclass(inner, BaseModel)
        keys += keys_of(inner, f"{prefix}{name}.") if is_section else [prefix + name]
    return keys


def keys_in(values: dict, prefix: str = "") -> list[str]:
    keys = []
    for name, value in values.items():
        keys += keys_in(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return keys


def test_params_yaml_holds_every_key_and_no_other():
    assert keys_in(read_yaml(PARAMS)) == keys_of(Params)


def test_params_yaml_is_valid():
    params = load_params(PARAMS)
    assert params.model.source.startswith("package:"), "works without a network"
    assert params.retrieval.encoder.startswith("package:")


def test_there_are_profiles():
    assert {profile.stem for profile in PROFILES} >= {"cpu-full", "paper"}


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.stem)
def test_every_profile_is_an_overlay_of_the_shipped_params(profile, tmp_path):
    path = tmp_path / "params.yaml"
    shutil.copy(PARAMS, path)
    changed = apply_profiles([profile], path)
    assert changed, "a profile changes something"
    assert set(keys_in(read_yaml(profile))) <= set(keys_of(Params))
    after = read_yaml(path)
    assert keys_in(after) == keys_of(Params), "no key is added or lost"
    comments = [line for line in PARAMS.read_text().splitlines() if line.startswith("#")]
    assert [line for line in path.read_text().splitlines() if line.startswith("#")] == comments
    params = load_params(path)
    room = params.rollout.routing_tokens + params.rollout.turns * params.rollout.turn_tokens
    assert room < params.model.max_tokens, "a conversation of full turns fits"
