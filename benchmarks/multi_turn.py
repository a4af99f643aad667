"""Multi-turn rollouts: our engine beside transformers' own `generate`, on the project's model.

`python -m benchmarks.multi_turn` plays the token pattern of one reinforcement step (tasks that share a menu, arms that
share a talent context, three turns with observations in between) with random tokens, greedy, a fixed number of
new tokens a turn. `generate` is given each turn's whole conversations, left-padded, as a stateless caller would.
Prints seconds of both, their ratio, and how many of the sampled tokens agree.
"""

import random
import time

import torch

from talentrl import layout
from talentrl.policy.engine import Sampling
from talentrl.policy.model import load_model, load_tokenizer
from talentrl.policy.transformers_engine import TransformersEngine

TASKS, ARMS, ROLLOUTS, TURNS = 4, 4, 2, 3
MENU, QUESTION, CONTEXT, OBSERVATION, NEW = 135, 25, 75, 55, 12


def main() -> None:
    """Run both and print the ratio."""
    model, tokenizer = load_model(layout.MODEL), load_tokenizer(layout.MODEL)
    draw = random.Random(0)

    def text(length: int) -> list[int]:
        return [draw.randrange(100, 40_000) for _ in range(length)]

    menu = text(MENU)
    conversations = []
    for _ in range(TASKS):
        question = menu + text(QUESTION)
        for _ in range(ARMS):
            arm = question + text(CONTEXT)
            conversations += [list(arm) for _ in range(ROLLOUTS)]
    observations = [[text(OBSERVATION) for _ in conversations] for _ in range(TURNS)]
    engine = TransformersEngine(model, tokenizer, batch=len(conversations))

    def ours(prompts: list[list[int]]) -> list[list[int]]:
        turns = engine.generate(prompts, Sampling(NEW, ()), [0] * len(prompts))
        return [turn.token_ids for turn in turns]

    def plain(prompts: list[list[int]]) -> list[list[int]]:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        output = model.generate(
            ids, attention_mask=mask, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0
        )
        return output[:, width:].tolist()

    results = {}
    for name, generate in (("ours", ours), ("transformers generate", plain)):
        prompts, sampled, began = [list(ids) for ids in conversations], [], time.perf_counter()
        for turn in range(TURNS):
            tokens = generate(prompts)
            sampled += [token for row in tokens for token in row]
            prompts = [ids + row + seen for ids, row, seen in zip(prompts, tokens, observations[turn], strict=True)]
        results[name] = (time.perf_counter() - began, sampled)
        print(f"{name}: {results[name][0]:.1f} s for {len(conversations)} rollouts of {TURNS} turns")
    (fast, mine), (slow, theirs) = results.values()
    same = sum(a == b for a, b in zip(mine, theirs, strict=True)) / len(theirs)
    print(f"ratio {slow / fast:.2f}x; {same:.1%} of the sampled tokens agree")


if __name__ == "__main__":
    main()
