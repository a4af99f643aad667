"""What a Prefect server needs to run this project: `python -m flows.setup`. Safe to run again.

The work pool, the concurrency limit `gpu`, and the deployments of `prefect.yaml`.
"""

import os
import subprocess
import sys
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, WorkPoolCreate
from prefect.exceptions import ObjectNotFound

from flows.hardware import GPU_LIMIT
from talentrl.servers import WORK_POOL


def main() -> None:
    """Create what is missing, and deploy; a limit that exists keeps its number of slots."""
    with get_client(sync_client=True) as client:
        try:
            client.read_work_pool(WORK_POOL)
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=WORK_POOL, type="process"))
        try:
            client.read_global_concurrency_limit_by_name(GPU_LIMIT)
        except ObjectNotFound:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=GPU_LIMIT, limit=1))
    deploy = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    raise SystemExit(subprocess.run(deploy, env={**os.environ, "TALENTRL_ROOT": str(Path.cwd())}).returncode)


if __name__ == "__main__":
    main()
