"""Credit assignment in simulation: `python -m benchmarks.credit [--quick] [--episodes FILE] [--picture FILE]`.

Prints Markdown tables; with `--picture` draws the learning curves; with `--episodes` learns from measured arms
(episodes of the `oracle` system) instead. Equal seeds give equal tables.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.credit.report import (
    CONFOUNDED,
    LEARNERS,
    PLAIN,
    QUICK,
    Size,
    beyond_table,
    decided_table,
    gradient_table,
    knob_table,
    learn,
    learning_table,
    split_table,
)
from talentrl.errors import InputError


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.credit")
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it runs, measures nothing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=Path, help="learn from these measured arms instead")
    parser.add_argument("--picture", type=Path, help="where to draw the learning curves")
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = replace(QUICK if options.quick else Size(), seed=options.seed)
    if options.episodes is None:
        simulate(size, options.picture)
        return
    from benchmarks.credit.episodes import learn_from_episodes

    short = replace(size, rollouts=min(size.rollouts, 9_600))
    try:
        learned = learn_from_episodes(options.episodes, LEARNERS, short)
    except InputError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    show("Measured arms", learning_table(learned))


def simulate(size: Size, picture: Path | None) -> None:
    """All tables of the simulation."""
    half = replace(size, rollouts=size.rollouts // 2)
    show("Gradients with fixed policies, one step of 64 rollouts", gradient_table(size))
    worlds = {"plain world": learn(PLAIN, LEARNERS, size), "confounded world": learn(CONFOUNDED, LEARNERS, size)}
    for name, learned in worlds.items():
        show(f"Learning, {name}", learning_table(learned))
    if picture:
        from benchmarks.credit.plots import draw_curves

        draw_curves(picture, worlds)
    show("Learning from a router that is sure and wrong", decided_table(half))
    show("Arms × rollouts, confounded world, means over the run", split_table(half))
    talents = {str(count): replace(PLAIN, talents=count) for count in (3, 8, 15, 30)}
    show("Number of talents, means over the run", knob_table("talents", talents, half))
    confounding = {f"{share:g}": replace(PLAIN, confounding=share) for share in (0, 0.25, 0.5, 0.75, 1)}
    show("Confounding, means over the run", knob_table("confounding", confounding, half))
    spreads = {f"{sd:g}": replace(PLAIN, difficulty=sd) for sd in (0, 2)}
    effects = {f"{sd:g}": replace(PLAIN, talent_effect=sd) for sd in (0.5, 2)}
    show("Spread of difficulty, means over the run", knob_table("difficulty", spreads, half))
    show("Size of talent effects, means over the run", knob_table("talent effect", effects, half))
    show("Beyond the paper, confounded world", beyond_table(size))


def show(title: str, lines: Iterable[str]) -> None:
    """Print a table as it is made."""
    print(f"## {title}\n")
    for line in lines:
        print(line, flush=True)
    print()


if __name__ == "__main__":
    main()
