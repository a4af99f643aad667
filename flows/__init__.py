"""Prefect flows: they say when and where stages run, show what happened, and compute nothing.

Importing this package sets, where the user has not, the environment that lets a flow run with no server
started and no network: Prefect reads it when it is first imported.
"""

import os

from rich.console import Console

from talentrl.servers import PREFECT_SERVER

ENVIRONMENT = {
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",  # a busy laptop needs more than 30
    **PREFECT_SERVER,
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
}

for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)


def _write_no_more(console: Console) -> None:
    console.quiet = True


# Prefect's console writes into a pipe of the worker. Rich would end the process when nobody reads it any more, and so a
# run whose worker is killed would die at its next line.
Console.on_broken_pipe = _write_no_more  # type: ignore
