"""Runs as the stages leave them in MLflow, with made-up outcomes."""

from collections.abc import Sequence
from pathlib import Path

from talentrl import layout
from talentrl.provenance import content_digest
from talentrl.rollouts.episode import Episode, episodes_frame, write_episodes
from talentrl.tracking import track


def episode(number: int, value: float, data: str = "") -> Episode:
    """An episode of the task of that number; `data` makes it a task of another data set with the same id."""
    task = f"atlas-test-{number:03d}"
    constant = {"benchmark": "atlas", "split": "test", "answers": ["x"], "rollout": 0, "seed": 7, "talent": None}
    named = {"episode_id": f"{task}/0", "task_id": task, "arm_id": task, "instruction": f"Question {number}?{data}"}
    made = {"checkpoint": "data/rl/7@0", "bank_digest": "0", "encoder": "e", "intervention": "routed"}
    return Episode(**constant, **named, **made, value=value, f1=value)  # type: ignore[arg-type]


def train(name: str, stage: str = "rl", seed: int = 7) -> str:
    """A stage that trained and registered the checkpoint `name`; its DVC digest."""
    folder = Path("data") / stage / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_text(name)
    with track(stage, {}, {}, {"seed": str(seed)}) as run:
        run.log({"loss": 1.0}, 0)
        run.log({"loss": 0.5}, 1)
        run.register(folder, stage, seed)
    return content_digest(folder)


def evaluate(system: str, values: Sequence[float], checkpoint: str = "0.dir", seed: int = 7, data: str = "") -> str:
    """A stage that evaluated `system`; `values` are the returns of task 0, 1, …; the run's id."""
    path = layout.EVALUATION / f"{system}-{seed}.parquet"
    write_episodes(path, episodes_frame([episode(number, value, data) for number, value in enumerate(values)]))
    tags = {"system": system, "seed": str(seed), "model.md5": checkpoint, "episodes.path": path.as_posix()}
    with track("evaluate", {}, {}, {**tags, "episodes.md5": content_digest(path)}) as run:
        run.log({f"evaluate/{system}/return": sum(values) / len(values), f"evaluate/{system}/episodes": len(values)})
    return run.id
