"""What a Prefect server needs to run this project: `python -m flows.setup`. Safe to run again.

The work pool, the concurrency limit `gpu`, and the deployments of `prefect.yaml`.
"""

import os
import subprocess
import sys
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import (
    DeploymentScheduleUpdate,
    DeploymentUpdate,
    GlobalConcurrencyLimitCreate,
    WorkPoolCreate,
)
from prefect.exceptions import ObjectNotFound

from flows.hardware import GPU_LIMIT
from talentrl.servers import WORK_POOL


def main() -> None:
    """Create what is missing, and deploy; what exists keeps its number of slots and its schedules."""
    with get_client(sync_client=True) as client:
        try:
            client.read_work_pool(WORK_POOL)
        except ObjectNotFound:
            client.create_work_pool(WorkPoolCreate(name=WORK_POOL, type="process"))
        try:
            client.read_global_concurrency_limit_by_name(GPU_LIMIT)
        except ObjectNotFound:
            client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=GPU_LIMIT, limit=1))
        before = [one for one in client.read_deployments() if one.work_pool_name == WORK_POOL]
        command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        deployed = subprocess.run(command, env={**os.environ, "TALENTRL_ROOT": str(Path.cwd())})
        for one in before:  # deploying put the file's schedules in the place of those that were switched on
            schedules = [
                DeploymentScheduleUpdate(**schedule.model_dump(include=set(DeploymentScheduleUpdate.model_fields)))
                for schedule in one.schedules
            ]
            client.update_deployment(one.id, DeploymentUpdate(schedules=schedules))
    raise SystemExit(deployed.returncode)


if __name__ == "__main__":
    main()
