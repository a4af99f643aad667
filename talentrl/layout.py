"""Where a project's files are, relative to its root. DVC's stages and the command line read and write these."""

from pathlib import Path

from talentrl.errors import InputError

DATA = Path("data")
MODEL = DATA / "model"
BANK = DATA / "bank.json"
TASKS = DATA / "tasks"
SKILL_INDEX = DATA / "index" / "skills"
PASSAGE_INDEX = DATA / "index" / "passages"
SHOP = DATA / "index" / "shop"
"""WebShop's products and their search."""
DEMOS = DATA / "demos.parquet"
SFT = DATA / "sft"
"""One checkpoint a training seed."""
RL = DATA / "rl"
"""One checkpoint a training seed."""
RL_EPISODES = DATA / "rl_episodes"
"""One file of training episodes a training seed."""
EVALUATION = DATA / "evaluation"
"""One file of episodes a system and training seed: `SYSTEM-SEED.parquet`."""
METRICS = Path("metrics")
REPORT = Path("reports") / "index.html"
BENCHMARKS = Path("benchmark_runs")
"""Evaluations apart from the pipeline: one folder a benchmark, which has this layout again."""
SWEEPS = Path("sweep_runs")
"""One folder a sweep, in it one a row: a copy of the project, which has this layout again."""
TRACKING = Path("tracking")
"""What could not be sent to MLflow yet: one file a run."""
MLFLOW = Path("mlflow.db")
"""MLflow's runs, written by stages, and shown by a server."""
MLFLOW_ARTIFACTS = Path("mlartifacts")
SCRATCH = Path("scratch")
"""Checkpoints of a training stage under way; not a stage output, so that a killed stage can resume."""
EMBEDDINGS = SCRATCH / "embeddings.sqlite"
"""Vectors of all texts that were ever indexed, so that a rebuilt index embeds only new ones."""


def newest_checkpoint() -> Path:
    """The checkpoint that training got furthest with: reinforced before supervised before pretrained.

    Among several training seeds it is the folder that changed last.

    Raises:
        InputError: there is no checkpoint yet.
    """
    for stage in (RL, SFT):
        found = [folder for folder in stage.glob("[!.]*") if folder.is_dir()]
        if found:
            return max(found, key=lambda folder: (folder.stat().st_mtime_ns, folder.name))
    if MODEL.is_dir():
        return MODEL
    raise InputError(f"no checkpoint in {RL}, {SFT} or {MODEL}: `make repro` makes one")
