"""Stage `sft SEED`: talent-aware supervised fine-tuning."""

import shutil
import sys

import torch

from talentrl import layout
from talentrl.config import Params
from talentrl.learning.callbacks import StepMetrics
from talentrl.learning.history import write_history
from talentrl.learning.resuming import scratch_folder
from talentrl.learning.sft import train_sft
from talentrl.processes import is_first_process
from talentrl.provenance import content_digest
from talentrl.rollouts.episode import read_episodes
from talentrl.tracking import Run
from tasks.stage import run_stage


def run(params: Params, run: Run) -> None:
    """Train on the demonstrations with the command line's seed; a killed run resumes from its checkpoint."""
    seed = int(sys.argv[1])
    scratch = scratch_folder(
        layout.SCRATCH,
        f"sft-{seed}",
        params.model_dump_json(include={"model", "sft"}),
        content_digest(layout.MODEL),
        content_digest(layout.DEMOS),
    )
    torch.set_float32_matmul_precision(params.model.matmul_precision)
    history = train_sft(
        layout.MODEL,
        read_episodes(layout.DEMOS),
        params.sft,
        seed,
        scratch,
        layout.SFT / str(seed),
        [StepMetrics(run.log)],
        params.model,
    )
    if is_first_process():
        write_history(layout.METRICS / "history" / f"sft-{seed}.json", history)
        shutil.rmtree(scratch)


if __name__ == "__main__":
    run_stage("sft", run, {"model": layout.MODEL, "demonstrations": layout.DEMOS})
