"""Stand-ins for the pipeline's stages: files of the right shape at once, whose figures follow from `rl.steps`."""

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl
from run_samples import episode

from talentrl import layout
from talentrl.config import load_params, read_yaml
from talentrl.evaluation.summary import summary_metrics
from talentrl.files import write_text
from talentrl.learning.history import write_history
from talentrl.rollouts.episode import episodes_frame, read_episodes, write_episodes

TASKS = 20


def correct(system: str, steps: int) -> int:
    """How many of the tasks a system answers."""
    return min(steps, TASKS) if system == "rl" else 4


def run(stage: str, *item: str) -> None:
    """Write what `python -m tasks.STAGE ITEM` would."""
    params = load_params(Path("params.yaml"))
    steps, seed = params.rl.steps, item[-1] if item else ""
    for out in read_yaml(Path("dvc.yaml"))["stages"][stage].get("outs", []):
        name = next(iter(out)) if isinstance(out, dict) else out
        name = name.replace("${item.seed}", seed).replace("${item.system}", item[0] if item else "")
        write_text(Path(name), f"{stage} {steps if stage == 'rl' else ''}")
    if stage == "demos":
        write_json("demos", {"conversations": 224, "targets": {"lookup": 100}})
    elif stage == "sft":
        write_history(history("sft", seed), [{"step": step, "loss": 1 / step} for step in (1, 2, 3)])
    elif stage == "rl":
        write_history(history("rl", seed), [{"step": step, "return": step / 20} for step in range(1, steps + 1)])
        write_history(history("replay", seed), [{"step": steps + 1, "replay/value": 0.5}])
    elif stage == "evaluate":
        system = item[0]
        episodes = episodes_frame([episode(task, float(task < correct(system, steps))) for task in range(TASKS)])
        write_episodes(layout.EVALUATION / f"{system}-{seed}.parquet", episodes)
        write_json(f"evaluation/{system}-{seed}", {"return": episodes["return"].mean(), "episodes": TASKS})
    elif stage == "report":
        frames = {
            system: pl.concat(read_episodes(layout.EVALUATION / f"{system}-{one}.parquet") for one in params.seeds)
            for system in params.evaluate.systems
        }
        write_json("summary", summary_metrics(frames))


def history(stage: str, seed: str) -> Path:
    """Where a training stage's curve is."""
    return layout.METRICS / "history" / f"{stage}-{seed}.json"


def write_json(name: str, value: Any) -> None:
    """Write a metrics file as the stages do."""
    write_text(layout.METRICS / f"{name}.json", json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    run(*sys.argv[1:])
