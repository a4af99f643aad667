"""params.yaml: what is refused and how it is said, the same numbers as DVC reads, and profiles."""

import math

import pytest
from dvc.utils.serialize import parse_yaml
from hypothesis import example, given
from hypothesis import strategies as st

from talentrl.config import Params, apply_profiles, load_params, parse_params, read_yaml
from talentrl.errors import InputError


@pytest.fixture
def write(tmp_path):
    """Writes params.yaml and returns its path."""

    def write(text, name="params.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems(path):
    with pytest.raises(InputError) as caught:
        load_params(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("modl: {}", "unknown key 'modl'; did you mean 'model'?"),
        ("rl: {learning_rat: 1}", "unknown key 'rl.learning_rat'; did you mean 'learning_rate'?"),
        ("rollout: {bach: 3}", "unknown key 'rollout.bach'; did you mean 'batch'?"),
        ("bank: {zzz: 3}", "unknown key 'bank.zzz'; expected one of ['path']"),
        ("rl: {steps: 1.5}", "rl.steps: found 1.5, expected a valid integer"),
        ("rl: {steps: 3.0}", "rl.steps: found 3.0, expected a valid integer"),
        ("rl: {steps: true}", "rl.steps: found True, expected a valid integer"),
        ("rl: {steps: '3'}", "rl.steps: found '3', expected a valid integer"),
        ("rl: {steps: 0}", "rl.steps: found 0, expected greater than 0"),
        ("rl: {learning_rate: '1e-6'}", "rl.learning_rate: found '1e-6', expected a valid number"),
        ("rl: {learning_rate: 0}", "rl.learning_rate: found 0, expected greater than 0"),
        ("retrieval: {alpha: 1.1}", "retrieval.alpha: found 1.1, expected less than or equal to 1"),
        ("retrieval: {prior_weight: .nan}", "retrieval.prior_weight: found nan, expected greater than or equal to 0"),
        ("retrieval: {fusion: sum}", "retrieval.fusion: found 'sum', expected 'linear' or 'rrf'"),
        ("evaluate: {systems: [sftt]}", "evaluate.systems.0: found 'sftt', expected 'zero_shot', 'flat', 'sft', "),
        ("rl: {interventions: [null]}", "rl.interventions.0: found None, expected 'null', 'strategy_only' or"),
        ("seeds: []", "seeds: found [], expected at least one item"),
        ("seeds: [7, -1]", "seeds.1: found -1, expected greater than or equal to 0"),
        ("seed: 2147483648", "seed: found 2147483648, expected less than 2147483648"),
        ("seed: null", "seed: found None, expected a valid integer"),
        ("rl: null", "rl: found None, expected a mapping of keys to values"),
        ("rl: 3", "rl: found 3, expected a mapping of keys to values"),
        ("retrieval: {index_prefix: A}", "retrieval.index_prefix: found 'A', expected text that matches ^[a-z0-9]"),
        ("tasks: {pooled: [{benchmark: nq}]}", "missing key 'tasks.pooled.0.path'"),
        (
            "tasks: {pooled: [{benchmark: nq, path: a, pth: b}]}",
            "unknown key 'tasks.pooled.0.pth'; did you mean 'path'?",
        ),
        ("1: 2", "1: found 1, expected a name as key"),
        ("[]", "found list, expected a mapping of sections"),
        ("", "found NoneType, expected a mapping of sections"),
        ("a: [", "not valid YAML: "),
        ("seed: 2024-13-45", "not valid YAML: "),
        ("seed: 1\nseed: 2", "not valid YAML: "),
        ("\x00", "not valid YAML: "),
        ("[" * 3000, "not valid YAML: "),
        ("seed: !!python/object/apply:os.getcwd []", "not valid YAML: "),
    ],
)
def test_a_fault_names_its_key_what_was_found_and_what_is_expected(write, text, problem):
    found = problems(write(text))
    assert len(found) == 1
    assert found[0].startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "rl: {kl: 0.1}",
            "rl.temperature: found 0.5 with rl.kl 0.1, expected 1: "
            "the penalty compares with the SFT checkpoint at temperature 1",
        ),
        (
            "rl: {estimator: shared}",
            "rl.replay_epochs: found 4 with rl.estimator shared, expected 0: "
            "only the gradients of all_action and contrast_distinct stay bounded when they are taken again",
        ),
        (
            "rl: {estimator: contrast_null, replay_epochs: 0}",
            "rl.interventions: found [], but estimator contrast_null compares with `null`",
        ),
        (
            "rl: {arms: 0, interventions: ['null', strategy_only]}",
            "rl.interventions: found ['null', 'strategy_only'] with rl.arms 0, expected `null` alone: "
            "the others repeat a drawn talent in part",
        ),
        ("rl: {arms: 0}", "rl.arms and rl.rollouts: found 0 a task, expected at least two rollouts to compare"),
        (
            "rl: {arms: 0, interventions: ['null'], rollouts: 1}",
            "rl.arms and rl.rollouts: found 1 a task, expected at least two rollouts to compare",
        ),
        (
            "rl: {arms: 1, rollouts: 1}",
            "rl.arms and rl.rollouts: found 1 a task, expected at least two rollouts to compare",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused_in_one_line(write, text, problem):
    assert problems(write(text)) == [problem]


@pytest.mark.parametrize(
    "text",
    [
        "rl: {arms: 0, interventions: ['null'], rollouts: 2}",
        "rl: {arms: 1, rollouts: 8}",
        "rl: {arms: 8, rollouts: 1}",
        "rl: {arms: 1, rollouts: 1, interventions: [skills_only]}",
        "rl: {arms: 1, rollouts: 1, estimator: all_action}",  # every talent is an arm
        "rl: {start: model, execution_baseline: task, reward: f1}",
        "rl: {kl: 0.1, temperature: 1.0}",
        "rl: {estimator: contrast_null, interventions: ['null'], replay_epochs: 0}",
        "evaluate: {systems: [strategy_only, skills_only, tag_only]}",
        "rollout: {show_strategy: false}",
    ],
)
def test_settings_of_the_ablations(write, text):
    load_params(write(text))


def test_all_problems_are_listed(write):
    text = "seed: -1\nrollout: {turnz: 2, batch: 0}\nretrieval: {alpha: high, skills: 2}\nreports: {}\n"
    assert problems(write(text)) == [
        "seed: found -1, expected greater than or equal to 0",
        "retrieval.alpha: found 'high', expected a valid number",
        "rollout.batch: found 0, expected greater than 0",
        "unknown key 'rollout.turnz'; did you mean 'turns'?",
        f"unknown key 'reports'; expected one of {sorted(Params.model_fields)}",
    ]


def test_missing_and_unreadable_files(tmp_path):
    assert problems(tmp_path / "none.yaml") == ["no such file"]
    (tmp_path / "params.yaml").write_bytes(b"seed: \xff")
    assert problems(tmp_path / "params.yaml")[0].startswith("not valid YAML: ")


def test_what_is_not_given_has_its_default(write):
    params = load_params(write("rl: {steps: 3}"))
    assert params.rl.steps == 3
    assert params == Params(rl=params.rl)


def test_the_hard_filter_can_be_written(write):
    assert load_params(write("retrieval: {prior_weight: .inf}")).retrieval.prior_weight == math.inf


def test_params_cannot_be_changed_later(write):
    params = load_params(write("seed: 1"))
    with pytest.raises(ValueError):
        params.seed = 2


numbers = st.floats(min_value=1e-300, max_value=1, exclude_min=True)


@given(st.one_of(numbers.map(repr), numbers.map("{:e}".format), numbers.map("{:.0e}".format)))
@example("1e-6")
@example("1E-6")
@example("1e-06")
@example("3e-4")
@example("1.e-3")
@example(".5")
@example("1")
def test_a_number_is_the_same_to_dvc_and_to_us(tmp_path_factory, number):
    path = tmp_path_factory.mktemp("numbers") / "params.yaml"
    path.write_text(f"rl: {{learning_rate: {number}}}\n")
    ours = load_params(path).rl.learning_rate
    assert ours == parse_yaml(path.read_text(), path)["rl"]["learning_rate"] == float(number)
    assert isinstance(ours, float)


@pytest.mark.parametrize("text", ["seed: 0o17", "seed: 017", "seed: 1_000", "seed: 0x1F", "seed: +7"])
def test_other_ways_to_write_an_integer_are_the_same_to_dvc_and_to_us(write, text):
    assert load_params(write(text)).seed == parse_yaml(text, "params.yaml")["seed"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_params_or_an_input_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("texts") / "params.yaml"
    path.write_bytes(text.encode())
    try:
        load_params(path)
    except InputError as error:
        assert all(line.startswith(f"{path}: ") for line in str(error).splitlines())


PARAMS = """\
# At the top.
seed: 7  # of the task set
seeds: [7]

rl:
  # How many.
  steps: 12  # optimiser steps
  learning_rate: 2e-5  # small
  interventions: []
"""


def test_a_profile_changes_values_and_keeps_comments(write):
    path = write(PARAMS)
    profile = write("seeds: [1, 2]\nrl:\n  learning_rate: 1e-6\n  steps: 12\n  rollouts: 3\n", "big.yaml")
    assert apply_profiles([profile], path) == ["seeds", "rl.learning_rate", "rl.rollouts"]
    text = path.read_text()
    for comment in ("# At the top.", "7  # of the task set", "  # How many.", "12  # optimiser steps", "# small"):
        assert comment in text
    params = load_params(path)
    assert (params.seed, params.seeds, params.rl.steps, params.rl.rollouts) == (7, [1, 2], 12, 3)
    assert params.rl.learning_rate == parse_yaml(text, path)["rl"]["learning_rate"] == 1e-6
    assert apply_profiles([profile], path) == [], "applying it again changes nothing"
    assert path.read_text() == text


def test_a_profile_may_add_a_section(write):
    path = write(PARAMS)
    assert apply_profiles([write("sft: {epochs: 2}", "big.yaml")], path) == ["sft"]
    assert load_params(path).sft.epochs == 2


def test_later_profiles_go_over_earlier_ones_and_are_checked_together(write):
    path = write(PARAMS)
    sampled = write("rl: {kl: 0.1, steps: 3}", "penalty.yaml")  # needs a temperature of 1
    hot = write("rl: {temperature: 1.0, steps: 4}", "hot.yaml")
    assert sorted(apply_profiles([sampled, hot], path)) == ["rl.kl", "rl.steps", "rl.temperature"]
    assert load_params(path).rl.steps == 4
    text = path.read_text()
    with pytest.raises(InputError, match=rf"^{hot} over {sampled}: rl.temperature: found 0.5"):
        apply_profiles([sampled, write("rl: {temperature: 0.5}", "hot.yaml")], path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ("rl: {stepz: 3}", "unknown key 'rl.stepz'; did you mean 'steps'?"),
        ("rl: {steps: -3}", "rl.steps: found -3, expected greater than 0"),
        ("rl: 3", "rl: found 3, expected a mapping"),
        ("seed: {a: 1}", "seed: found"),
        ("", "found NoneType, expected a mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_bad_profile_leaves_the_file_untouched(write, overlay, words):
    path, profile = write(PARAMS), write(overlay, "bad.yaml")
    with pytest.raises(InputError) as caught:
        apply_profiles([profile], path)
    assert str(caught.value).startswith(f"{profile}: {words}")
    assert path.read_text() == PARAMS
    assert sorted(file.name for file in path.parent.iterdir()) == ["bad.yaml", "params.yaml"]


def test_params_that_were_bad_before_are_not_blamed_on_the_profile(write):
    path = write(PARAMS + "repots: 1\n")
    with pytest.raises(InputError) as caught:
        apply_profiles([write("seed: 8", "good.yaml")], path)
    assert str(caught.value).startswith(f"{path}: unknown key 'repots'")


def test_a_profile_that_cannot_be_written_leaves_the_file_untouched(write, monkeypatch):
    from ruamel.yaml import YAML

    path = write(PARAMS)

    def fail(self, document, target):
        target.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(YAML, "dump", fail)
    with pytest.raises(OSError, match="disk full"):
        apply_profiles([write("seed: 8", "big.yaml")], path)
    assert path.read_text() == PARAMS
    assert sorted(file.name for file in path.parent.iterdir()) == ["big.yaml", "params.yaml"]


def test_missing_profile(write, tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml: no such file"):
        apply_profiles([tmp_path / "none.yaml"], write(PARAMS))


def test_values_from_elsewhere_name_their_origin():
    with pytest.raises(InputError, match=r"^the command line: seed: found 'x', expected a valid integer$"):
        parse_params({"seed": "x"}, "the command line")


def test_yaml_is_read_as_version_1_2(write):
    assert read_yaml(write("a: no\nb: 010\nc: 1:30\n")) == {"a": "no", "b": 10, "c": "1:30"}
