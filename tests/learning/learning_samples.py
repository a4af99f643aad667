"""A project small enough to train in seconds: a byte-level random Llama, four talents, and an environment whose
returns a test chooses."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback

from talentrl.bank.bank import SkillBank
from talentrl.bank.skill import Skill
from talentrl.bank.talent import Talent
from talentrl.benchmarks.taskset import Task
from talentrl.config import ModelSection, RlSection
from talentrl.environments.environment import Outcome, Step
from talentrl.learning.rl import TalentGRPOTrainer
from talentrl.policy.chat import ChatFormat
from talentrl.policy.model import load_model, load_tokenizer
from talentrl.policy.parser import Action
from talentrl.policy.transformers_engine import TransformersEngine
from talentrl.retrieval.index import Hit
from talentrl.rollouts.episode import Episode
from talentrl.rollouts.runner import Limits, RolloutRequest, RolloutRunner

_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TALENTS = ("blue", "gold", "grey", "pink")
LOSS_TYPES = ["grpo", "dapo", "dr_grpo"]
GOOD = "pink"  # the talent that tests reward


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One id a byte; the padding token is the end token, as in SmolLM2."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=_CHATML,
        model_max_length=2048,
    )


def save_tiny_model(folder: Path) -> None:
    """Write the tokenizer and a random two-layer Llama to `folder`."""
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.05,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def toy_bank() -> SkillBank:
    """A talent a colour, each with a skill of its name."""
    return SkillBank(
        skills={f"skill-{t}": Skill(f"skill-{t}", f"skill-{t}", t, body=f"Think {t}.") for t in TALENTS},
        talents={t: Talent(t, t, f"the {t} way", f"Be {t}.", {f"skill-{t}": 1.0}) for t in TALENTS},
    )


class FixedRetriever:
    """A talent's own skills; without a talent the bank's first ones."""

    def __init__(self, bank: SkillBank) -> None:
        self.bank = bank

    def retrieve(self, query: str, talent_id: str | None, k: int) -> list[Hit]:
        ids = list(self.bank.talents[talent_id].skills) if talent_id else list(self.bank.skills)
        return [Hit(id, 1.0, 0.5, 0.5, 1.0 if talent_id else 0.0) for id in ids[:k]]


class ToyEnvironment:
    """Answers `<search>`, judges `<answer>` by exact match."""

    version = "toy/1"

    def __init__(self, task: Task) -> None:
        self.task = task
        self.answer: str | None = None

    def reset(self) -> str:
        return ""

    def admissible(self) -> list[str] | None:
        return None

    def step(self, action: Action | None) -> Step:
        if action is not None and action.kind == "search":
            return Step(f"<information>About {action.argument}.</information>")
        if action is not None and action.kind == "answer":
            self.answer = action.argument
            return Step("", done=True)
        return Step(f"No action in {self.task.task_id}.", valid=False)

    def outcome(self) -> Outcome:
        match = float(self.answer in self.task.answers)
        return Outcome(match, {"exact_match": match, "f1": match})


class ToyRunner(RolloutRunner):
    """A runner whose sampled episodes are judged by `judge`, if there is one (None is a failed rollout)."""

    judge: Callable[[Episode], float | None] | None = None

    def run(self, requests: Sequence[RolloutRequest], *args: Any, **kwargs: Any) -> list[Episode]:
        episodes = super().run(requests, *args, **kwargs)
        for episode in episodes:
            if self.judge is not None and episode.error is None:
                episode.value = self.judge(episode)
        return episodes


def toy_runner(
    folder: Path,
    judge: Callable[[Episode], float | None] | None = None,
    environment: Callable[[Task], Any] = ToyEnvironment,
    model_settings: ModelSection = ModelSection(),
    **limits: int,
) -> ToyRunner:
    """A runner over the model in `folder`."""
    bank, tokenizer = toy_bank(), load_tokenizer(folder)
    settings = {"turns": 2, "routing_tokens": 24, "turn_tokens": 3, "max_tokens": 700, "skills": 1, "batch": 8}
    runner = ToyRunner(
        TransformersEngine(load_model(folder, model_settings.precision), tokenizer, 8),
        ChatFormat(tokenizer, model_settings.thinking),
        bank,
        FixedRetriever(bank),  # type: ignore[arg-type]
        environment,
        Limits(**settings | limits),
        checkpoint="tiny",
        encoder="none",
    )
    runner.judge = judge
    return runner


def toy_tasks(count: int, instruction: str = "Which way?") -> list[Task]:
    """Tasks with ids of their own (of different lengths), the same instruction and the same answer."""
    return [Task(f"task-{'i' * i}", "toy", "train", instruction, ("yes",), {}) for i in range(count)]


def toy_settings(**values: Any) -> RlSection:
    """A reinforcement section of two small steps."""
    small = {"steps": 1, "tasks": 2, "arms": 2, "rollouts": 2, "save_steps": 100}
    small |= {"learning_rate": 1e-3, "warmup": 0.0, "temperature": 1.0, "replay_epochs": 0}
    return RlSection(**small | values)


def graded(episode: Episode) -> float:
    """A return in [0, 1] that depends on what was sampled, and on nothing else."""
    sampled = [token for token, action in zip(episode.token_ids, episode.action_mask, strict=True) if action]
    return (sum(sampled) % 9) / 8


def probability(runner: ToyRunner) -> float:
    """Of the talent GOOD, among all talents."""
    runner.engine.reset()
    chances = {t: turn.probability or 0.0 for t, turn in runner.score_talents(toy_tasks(1))[0].items()}
    return chances[GOOD] / sum(chances.values())


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights saved in a model folder."""
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    """Bit for bit."""
    left, right = weights(one), weights(other)
    assert left.keys() == right.keys()
    for name in left:
        assert torch.equal(left[name], right[name]), name


def without_times(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A log history without what a clock measured."""
    return [{k: v for k, v in entry.items() if "time" not in k and "second" not in k} for entry in history]


def untimed(episodes: pl.DataFrame) -> pl.DataFrame:
    """Episodes without what a clock measured."""
    return episodes.drop("seconds")


class Killed(Exception):
    """Stands for SIGKILL."""


class KillAfter(TrainerCallback):
    """Ends the process at `moment` (a callback's name) of a step."""

    def __init__(self, step: int, moment: str = "on_step_end") -> None:
        self._step = step
        setattr(self, moment, self._kill)

    def _kill(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self._step:
            raise Killed


class FirstGradient(TrainerCallback):
    """Keeps the first optimiser step's gradient, not clipped."""

    def __init__(self) -> None:
        self.gradient: dict[str, torch.Tensor] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        args.max_grad_norm = 0.0

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if not self.gradient:
            self.gradient = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


Gradient = dict[str, torch.Tensor]


def micro_batches(trainer: TalentGRPOTrainer) -> list[dict[str, Any]]:
    """What the trainer computes its losses on in one optimiser step."""
    generation_batch = next(iter(trainer.get_train_dataloader()))
    found = []
    for _ in range(trainer.settings.tasks):
        found.append(trainer._prepare_inputs(generation_batch))
        trainer._step += 1
    return found


def loss_gradient(trainer: TalentGRPOTrainer, batches: list[dict[str, Any]]) -> tuple[float, Gradient]:
    """The loss over `batches` and its gradient."""
    trainer.model.zero_grad()
    loss = sum(trainer._compute_loss(trainer.model, dict(batch)) for batch in batches)
    loss.backward()  # type: ignore[union-attr]
    return float(loss.detach()), {n: p.grad.clone() for n, p in trainer.model.named_parameters() if p.grad is not None}


def assert_close(found: Gradient, expected: Gradient, tolerance: float = 1e-4) -> None:
    """Up to `tolerance` times the norm of `expected`."""
    assert found.keys() == expected.keys()
    norm = math.sqrt(sum(float(g.square().sum()) for g in expected.values()))
    assert norm > 0
    for name in found:
        torch.testing.assert_close(found[name], expected[name], atol=tolerance * norm, rtol=0)
