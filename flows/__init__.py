"""Prefect flows: they say when and where stages run, show what happened, and compute nothing.

Importing this package sets, where the user has not, the environment that lets a flow run with no server
started and no network: Prefect reads it when it is first imported.
"""

import os

ENVIRONMENT = {
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",  # a busy laptop needs more than 30
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # A server that is killed would otherwise forget who holds slots, and those would never be free again.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
}

for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
