"""Rollouts of one reinforcement step: our engine beside transformers' own `generate`, on the project's model.

`python -m benchmarks.rollouts` plays 8 tasks × 4 arms × 2 rollouts of three turns: prompts of 600 tokens (system turn
and menu, question, talent context), a fixed number of sampled tokens a turn, observations in between. The tokens are
random and the end token ends nothing, so that every peer reads and samples equally many; decoding is greedy. Each
system runs in a process of its own:

- `grouped`: `TransformersEngine`, what rollouts use;
- `generate`: `model.generate` on the whole conversations of each turn, left-padded, equal prompts once (greedy decoding
  has no `num_return_sequences`, its copies are equal), as a caller who keeps nothing would;
- `one by one`: `generate` for each conversation alone;
- `vllm`: with `--vllm URL`, vLLM's OpenAI-compatible server, prefix caching on, all conversations of a turn at once.

Prints seconds, sampled tokens a second, seconds until the first conversation has ended, peak memory, and ratios.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TASKS, ARMS, ROLLOUTS, TURNS = 8, 4, 2, 3
MENU, QUESTION, CONTEXT, OBSERVATION, NEW = 400, 50, 150, 100, 24
Tokens = list[list[int]]


def main() -> None:
    """Run each system in a process of its own, or the one that is named in this process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollouts", description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("data/model"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vllm", metavar="URL", help="address of a vLLM server that serves the same model")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--system", choices=SYSTEMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.system:
        print(json.dumps(measure(options)))
        return
    systems = [name for name in SYSTEMS if name != "vllm" or options.vllm]
    results = {}
    for name in systems:
        command = [sys.executable, "-m", "benchmarks.rollouts", *sys.argv[1:], "--system", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
        results[name] = json.loads(done.stdout.splitlines()[-1])
    conversations = options.tasks * ARMS * ROLLOUTS
    print(f"{conversations} conversations of {TURNS} turns, {NEW} tokens each, on {options.threads} threads")
    print("| system | seconds | tokens/s | first conversation after | peak memory | grouped is faster | tokens agree |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    ours = results["grouped"]
    for name, result in results.items():
        pairs = zip(ours["tokens"], result["tokens"], strict=True)
        same = sum(a == b for a, b in pairs) / len(ours["tokens"])
        memory = f"{result['memory'] / 2**30:.2f} GiB" if name != "vllm" else "(server)"
        print(
            f"| {name} | {result['seconds']:.1f} | {len(result['tokens']) / result['seconds']:.1f} "
            f"| {result['first']:.1f} s | {memory} | {result['seconds'] / ours['seconds']:.2f}× | {same:.1%} |"
        )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds, seconds until the first conversation ended, peak memory (bytes) and the tokens that were sampled."""
    prompts, observations = conversations(options)
    generate = SYSTEMS[options.system](options, len(prompts))
    generate([prompts[0][:8]])  # what is set up at the first call
    began, first, sampled = time.perf_counter(), None, []
    # A system that takes one conversation at a time ends the first one early; the others go turn by turn.
    groups = [[row] for row in range(len(prompts))] if options.system == "one by one" else [list(range(len(prompts)))]
    said: dict[int, list[int]] = {row: [] for row in range(len(prompts))}
    for group in groups:
        for turn in range(TURNS):
            for row, tokens in zip(group, generate([prompts[row] for row in group]), strict=True):
                said[row] += tokens
                prompts[row] = prompts[row] + tokens + observations[turn][row]
        first = first or time.perf_counter() - began
    sampled = [token for row in said.values() for token in row]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": time.perf_counter() - began, "first": first, "memory": memory, "tokens": sampled}


def conversations(options: argparse.Namespace) -> tuple[Tokens, list[Tokens]]:
    """The prompts, and for each turn the observation that follows in each conversation; the same in every process."""
    draw = random.Random(0)
    vocabulary = json.loads((options.model / "config.json").read_text())["vocab_size"]

    def text(length: int) -> list[int]:
        return [draw.randrange(vocabulary) for _ in range(length)]

    menu, prompts = text(MENU), []
    for _ in range(options.tasks):
        question = menu + text(QUESTION)
        for _ in range(ARMS):
            arm = question + text(CONTEXT)
            prompts += [list(arm) for _ in range(ROLLOUTS)]
    return prompts, [[text(OBSERVATION) for _ in prompts] for _ in range(TURNS)]


def _load(options: argparse.Namespace) -> tuple[Any, Any]:
    import torch

    from talentrl.policy.model import load_model, load_tokenizer

    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("medium")
    model, tokenizer = load_model(options.model), load_tokenizer(options.model)
    model.generation_config.eos_token_id = tokenizer.eos_token = None
    return model, tokenizer


def grouped(options: argparse.Namespace, count: int) -> Callable[[Tokens], Tokens]:
    """Our engine."""
    from talentrl.policy.engine import Sampling
    from talentrl.policy.transformers_engine import TransformersEngine

    engine = TransformersEngine(*_load(options), batch=count)

    def generate(prompts: Tokens) -> Tokens:
        return [turn.token_ids for turn in engine.generate(prompts, Sampling(NEW, ()), [0] * len(prompts))]

    return generate


def plain(options: argparse.Namespace, count: int) -> Callable[[Tokens], Tokens]:
    """`generate` of transformers; each distinct prompt once if all occur equally often."""
    import torch

    model, _ = _load(options)

    def generate(prompts: Tokens) -> Tokens:
        distinct = list(dict.fromkeys(map(tuple, prompts)))
        copies, rest = divmod(len(prompts), len(distinct))
        rows = prompts if rest or copies == 1 else [list(prompt) for prompt in distinct]
        width = max(map(len, rows))
        ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
        lengths = {"max_new_tokens": NEW, "pad_token_id": 0}
        output = model.generate(ids, attention_mask=mask, do_sample=False, **lengths)[:, width:].tolist()
        if len(rows) == len(prompts):
            return output
        # Greedy decoding refuses num_return_sequences > 1: the copies would be the same.
        found = dict(zip(distinct, output, strict=True))
        return [found[tuple(prompt)] for prompt in prompts]

    return generate


def vllm(options: argparse.Namespace, count: int) -> Callable[[Tokens], Tokens]:
    """A vLLM server; it schedules the conversations of a call itself."""
    import httpx

    client = httpx.Client(base_url=options.vllm, timeout=3600)
    name = client.get("/v1/models").raise_for_status().json()["data"][0]["id"]

    def generate(prompts: Tokens) -> Tokens:
        body = {"model": name, "prompt": prompts, "max_tokens": NEW, "ignore_eos": True, "temperature": 0}
        answer = client.post("/v1/completions", json={**body, "return_token_ids": True}).raise_for_status().json()
        return [choice["token_ids"] for choice in sorted(answer["choices"], key=lambda choice: choice["index"])]

    return generate


SYSTEMS = {"grouped": grouped, "generate": plain, "one by one": plain, "vllm": vllm}


if __name__ == "__main__":
    main()
