"""Training in several processes, as `accelerate launch` and `torchrun` start it: who this one is among them."""

import os


def process_count() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", 1))


def is_first_process() -> bool:
    """Whether this is the one that writes files and keeps records; the others only compute."""
    return int(os.environ.get("RANK", 0)) == 0
