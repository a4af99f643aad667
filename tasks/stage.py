"""How every stage starts and ends: params, tracking, and an exit code that says whose fault it was."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from talentrl.config import Params, load_params
from talentrl.errors import InputError, TrainingStopped
from talentrl.memory import out_of_memory
from talentrl.provenance import content_digest
from talentrl.tracking import Run, track

if TYPE_CHECKING:
    from talentrl.rollouts.runner import RolloutRunner


def run_stage(name: str, function: Callable[[Params, Run], None], inputs: Mapping[str, Path]) -> None:
    """Run `function` as the stage `name` under a tracking run; the body of every `python -m tasks.NAME`.

    Bad input prints one line and exits with code 2, as does a stage that runs out of memory; a training that stopped
    itself one line and code 1. Any other exception is a fault of ours: its traceback shows, exit code 1.
    `inputs` (name → file or folder) must exist; they are recorded with their digests.
    """
    signal.signal(signal.SIGTERM, _exit)
    if "WORLD_SIZE" not in os.environ:  # a single process: transformers would split batches over all GPUs that it sees
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    try:
        params = load_params()
        for label, path in inputs.items():
            if not path.exists():
                raise InputError(f"{label} {path} does not exist: `dvc repro {name}` makes what the stage needs")
        with track(name, params.model_dump(), inputs) as run:
            function(params, run)
    except InputError as error:
        print(f"{name}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except TrainingStopped as stopped:
        print(f"{name}: {stopped}", file=sys.stderr)
        raise SystemExit(1) from None
    except (RuntimeError, MemoryError) as error:
        if (message := out_of_memory(error, name)) is None:
            raise
        print(f"{name}: {message}", file=sys.stderr)
        raise SystemExit(2) from None


def tag_parts(run: Run, runner: "RolloutRunner", checkpoint: Path) -> None:
    """Tag a run with what it runs on: the digests of its skill bank, its encoder and its model."""
    run.tag("skillbank.digest", runner.bank.digest)
    run.tag("encoder.fingerprint", runner.encoder)
    tag_model(run, checkpoint)


def tag_model(run: Run, checkpoint: Path) -> None:
    """Tag a run with the model that it starts from: its path and the digest that DVC gives it."""
    run.tag("model.path", checkpoint.as_posix())
    run.tag("model.md5", content_digest(checkpoint))


def _exit(signum: int, frame: FrameType | None) -> None:
    # As an exception, so that files are left whole and the tracking run ends FAILED.
    raise SystemExit(128 + signum)
