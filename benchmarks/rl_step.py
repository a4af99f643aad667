"""A reinforcement step of our trainer beside TRL's own `GRPOTrainer`, on the same rollouts.

`python -m benchmarks.rl_step` replays the rollouts of a reinforcement run (`--episodes`, token by token, with their
masks and returns) to both trainers with the same model, optimiser, group and micro-batch, so that only the training
half differs. TRL pads each micro-batch and forwards every token; its advantage is one number a rollout. `ours, all
tokens` scores every trained token, `ours` those whose advantage is not zero. Each run is a process of its own; the
systems take turns. Prints seconds a step by phase, peak memory of the process, and the ratios to TRL. `--quick` takes
random tokens and a small random model instead, and needs no data.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SYSTEMS = ("trl", "ours", "ours, all tokens")
MENU, QUESTION, ROUTING, CONTEXT, OBSERVATION, ACTION, TURNS = 135, 25, 7, 75, 55, (6, 18), (2, 4)
VOCABULARY = 1000  # of `--quick`
MAXIMUM = 1024


def main() -> None:
    """Run all systems and print the ratios."""
    options = _options()
    if options.system:
        print(json.dumps(measure(options)))
        return
    results: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _ in range(options.repeats):
        for system in SYSTEMS:
            results[system].append(_run(system, options.threads))
            print(f"{system}: {_described(results[system][-1])}", file=sys.stderr)
    rollouts = results["trl"][0]["rollouts"]
    print(f"\nmedian of {options.repeats} runs, {rollouts} rollouts a step, {options.threads} threads")
    medians = {system: _median(runs) for system, runs in results.items()}
    for system, median in medians.items():
        print(f"{system}: {_described(median)}")
    for system in SYSTEMS[1:]:
        paired = [ours["step"] / trl["step"] for ours, trl in zip(results[system], results["trl"], strict=True)]
        memory = medians[system]["memory"] / medians["trl"]["memory"]
        print(
            f"{system} / trl: time {medians[system]['step'] / medians['trl']['step']:.2f} "
            f"({min(paired):.2f} to {max(paired):.2f}), memory {memory:.2f}, "
            f"tokens forwarded {medians[system]['tokens'] / medians['trl']['tokens']:.2f}"
        )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """One run of `options.system`: seconds a step by phase, tokens forwarded a step, peak memory of the process (B).

    The first step, which sets up the optimiser, counts for memory only.
    """
    import torch
    from datasets import Dataset

    from talentrl.config import ModelSection, RlSection
    from talentrl.learning.rl import grpo_arguments

    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("medium")
    model, tokenizer = small_model() if options.quick else _loaded(options.model)
    steps = random_steps(options) if options.quick else recorded_steps(options)
    settings = RlSection(steps=options.steps, tasks=options.tasks, arms=steps[0].routed_TA.shape[1])
    group = len(steps[0].episodes) // options.tasks
    tokens = defaultdict(int)
    seconds: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        arguments = grpo_arguments(settings, ModelSection(), group, MAXIMUM, 0, Path(folder))
        arguments.save_strategy = "no"
        arguments.disable_tqdm = True
        tasks = [f"task-{number}" for number in range(options.tasks)]
        shared = {
            "model": model,
            "processing_class": tokenizer,
            "train_dataset": Dataset.from_dict({"prompt": tasks}),
            "args": arguments,
        }
        if options.system == "trl":
            rows = options.micro_batch or group
            arguments.per_device_train_batch_size = rows
            arguments.gradient_accumulation_steps = arguments.steps_per_generation = options.tasks * group // rows
            trainer = _trl(steps, shared)
        else:
            trainer = _ours(steps, shared, settings, Path(folder), options.system == "ours, all tokens")
        trainer.add_callback(_timer(seconds, trainer, tokens))
        trainer.train()
    counted = options.steps - 1
    phases = {name: value / counted for name, value in seconds.items()}
    phases["backward"] = phases["step"] - phases["prepare"] - phases["forward"] - phases["optimiser"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return phases | {"tokens": tokens["forwarded"] / counted, "memory": memory, "rollouts": len(steps[0].episodes)}


def _trl(steps: list[Any], shared: dict[str, Any]) -> Any:
    """TRL's trainer, whose rollout function replays."""
    from trl import GRPOTrainer

    from talentrl.learning.arms import trained_masks
    from talentrl.learning.rl import episode_return

    def replayed(prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
        arms = steps[trainer.state.global_step]
        return {
            "prompt_ids": [episode.token_ids[: episode.prompt_tokens] for episode in arms.episodes],
            "completion_ids": [episode.token_ids[episode.prompt_tokens :] for episode in arms.episodes],
            "logprobs": [episode.logprobs[episode.prompt_tokens :] for episode in arms.episodes],
            "env_mask": trained_masks(arms),
            "episode_return": [episode.value for episode in arms.episodes],
        }

    return GRPOTrainer(reward_funcs=[episode_return], rollout_func=replayed, **shared)


def _ours(steps: list[Any], shared: dict[str, Any], settings: Any, folder: Path, all_tokens: bool) -> Any:
    """Our trainer, whose `collect` replays; the rest of its rollout function runs as it is."""
    from talentrl.learning import rl

    runner: Any = SimpleNamespace(
        engine=SimpleNamespace(reset=lambda: None), limits=SimpleNamespace(max_tokens=MAXIMUM)
    )
    rl.collect = lambda *_: steps[trainer.state.global_step]
    if all_tokens:
        computed: Callable[..., Any] = rl.token_advantages
        rl.token_advantages = lambda *given: [values.where(values != 0, 1e-6) for values in computed(*given)]
    tasks: Any = {prompt: None for prompt in shared["train_dataset"]["prompt"]}
    trainer = rl.TalentGRPOTrainer(runner=runner, tasks=tasks, settings=settings, episodes_folder=folder, **shared)
    return trainer


def _timer(seconds: dict[str, float], trainer: Any, tokens: dict[str, int]) -> Any:
    """A callback that adds up the seconds of the phases, and the forwarded tokens, from the second step on."""
    from transformers import TrainerCallback

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            result = function(*given, **named)
            if trainer.state.global_step:
                seconds[name] += time.perf_counter() - began
            return result

        return call

    def count(module: Any, ids: tuple[Any], output: Any) -> None:
        if trainer.state.global_step:
            tokens["forwarded"] += ids[0].numel()

    trainer._prepare_inputs = timed("prepare", trainer._prepare_inputs)
    trainer._compute_loss = timed("forward", trainer._compute_loss)
    trainer.model.get_input_embeddings().register_forward_hook(count)

    class Timer(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.began = time.perf_counter()

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.optimiser = time.perf_counter()

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step:
                seconds["optimiser"] += time.perf_counter() - self.optimiser

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step > 1:
                seconds["step"] += time.perf_counter() - self.began

    return Timer()


def recorded_steps(options: argparse.Namespace) -> list[Any]:
    """The first tasks of the first steps of a run's episodes, as the trainer got them."""
    import polars as pl

    from talentrl.rollouts.episode import Episode

    frame = pl.read_parquet(options.episodes)
    steps = []
    for step in range(options.steps):
        rows = frame.filter(step=step)
        group = len(rows) // rows["task_id"].n_unique()
        episodes = [
            Episode(**{"value" if key == "return" else key: value for key, value in row.items() if key != "step"})
            for row in rows.head(group * options.tasks).iter_rows(named=True)
        ]
        rollouts = 1 + max(episode.rollout for episode in episodes)
        steps.append(_arms(episodes, options.tasks, rollouts))
    return steps


def random_steps(options: argparse.Namespace, arms: int = 4, rollouts: int = 2) -> list[Any]:
    """Steps with the token pattern of the shipped settings: tasks share a menu, arms a context."""
    from talentrl.rollouts.episode import Episode

    draw = random.Random(0)

    def text(length: int) -> list[int]:
        return [draw.randrange(10, VOCABULARY) for _ in range(length)]

    menu, steps = text(MENU), []
    for _ in range(options.steps):
        episodes = []
        for task in range(options.tasks):
            prompt = menu + text(QUESTION)
            for arm in range(arms):
                opening = prompt + text(ROUTING + CONTEXT)
                for rollout in range(rollouts):
                    ids, action = list(opening), [False] * len(opening)
                    for _ in range(draw.randint(*TURNS)):
                        said = draw.randint(*ACTION)
                        ids += text(said + OBSERVATION)
                        action += [True] * said + [False] * OBSERVATION
                    place = len(prompt)
                    routing = [place <= i < place + ROUTING for i in range(len(ids))]
                    episode = Episode(
                        f"{task}/{arm}/{rollout}", f"task-{task}", "", "", "", [], f"arm-{arm}", "routed", f"t{arm}",
                        rollout, 0, "", "", "", token_ids=ids, routing_mask=routing, action_mask=action,
                        logprobs=[0.0] * len(ids), value=float(draw.random() < 0.3), routing_probability=1 / arms,
                        prompt_tokens=place,
                    )  # fmt: skip
                    episodes.append(episode)
        steps.append(_arms(episodes, options.tasks, rollouts))
    return steps


def _arms(episodes: list[Any], tasks: int, rollouts: int) -> Any:
    import torch

    from talentrl.learning.arms import Arms

    first = episodes[::rollouts]
    shape = (tasks, len(first) // tasks)
    chances = torch.tensor([episode.routing_probability or 0.0 for episode in first]).reshape(shape)
    return Arms(
        episodes,
        rollouts,
        routed_TA=torch.tensor([episode.intervention == "routed" for episode in first]).reshape(shape),
        null_TA=torch.tensor([episode.intervention == "null" for episode in first]).reshape(shape),
        probabilities_TA=chances,
        talents=[str(episode.talent) for episode in first[: shape[1]]],
        tags_TZ=chances.clamp(min=1e-9).log(),
    )


def small_model() -> tuple[Any, Any]:
    """A random Llama of a million weights and a tokenizer of as many words as it knows."""
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(VOCABULARY)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="w1", pad_token="w1")
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = LlamaConfig(
        vocab_size=VOCABULARY, max_position_embeddings=MAXIMUM, pad_token_id=1, eos_token_id=1, **sizes
    )
    return LlamaForCausalLM(config), tokenizer


def _loaded(folder: Path) -> tuple[Any, Any]:
    from talentrl.policy.model import load_model, load_tokenizer

    return load_model(folder), load_tokenizer(folder)


def _run(system: str, threads: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.rl_step", *sys.argv[1:], "--system", system]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _median(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def _described(run: dict[str, Any]) -> str:
    phases = ", ".join(f"{name} {run[name]:.2f}" for name in ("prepare", "forward", "backward", "optimiser"))
    return (
        f"{run['step']:.2f} s a step ({phases}), {run['tokens']:.0f} tokens forwarded, "
        f"peak memory {run['memory'] / 2**30:.2f} GiB"
    )


def _options() -> argparse.Namespace:
    from talentrl import layout

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=layout.SFT / "7")
    parser.add_argument("--episodes", type=Path, default=layout.RL_EPISODES / "7.parquet")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tasks", type=int, default=4, help="tasks a step")
    parser.add_argument("--steps", type=int, default=2, help="steps a run; the first is not counted")
    parser.add_argument("--micro-batch", type=int, help="rollouts TRL forwards at once; by default a task's, as we do")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
