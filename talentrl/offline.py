"""Environment variables that keep a process offline, quiet and free of telemetry, where the user has not set them.

Other libraries read them when they are first imported, so a program sets them as it starts; importing the
library sets nothing.
"""

import os

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",  # a model named by its hub id needs HF_HUB_OFFLINE=0
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DVC_NO_ANALYTICS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}


def set_environment() -> None:
    """Set each variable of `ENVIRONMENT` that is not set yet."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
