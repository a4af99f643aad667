"""Who runs tasks side by side: threads of the flow's process, or the workers of a Dask or Ray cluster."""

import os
from typing import Any, Literal

from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from talentrl.errors import InputError

Runner = Literal["threads", "dask", "ray"]


def task_runner(runner: Runner, workers: int) -> TaskRunner[Any]:
    """One of Prefect's task runners that runs `workers` tasks at a time.

    Dask and Ray start on this machine for the time of the flow, unless DASK_SCHEDULER_ADDRESS or RAY_ADDRESS names a
    cluster; that decides itself how many tasks it runs at a time. Its workers start in the project's folder.

    Raises:
        InputError: the runner's package is not installed.
    """
    if runner == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    try:
        if runner == "dask":
            from prefect_dask import DaskTaskRunner

            if address := os.environ.get("DASK_SCHEDULER_ADDRESS"):
                return DaskTaskRunner(address=address)
            # A row is a child process, so a worker needs one thread.
            local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
            return DaskTaskRunner(cluster_kwargs=local)
        from prefect_ray import RayTaskRunner
    except ModuleNotFoundError as error:
        raise InputError(f"runner {runner}: {error.name} is not installed: pip install 'talentrl[{runner}]'") from error
    if address := os.environ.get("RAY_ADDRESS"):
        return RayTaskRunner(address=address)
    return RayTaskRunner(init_kwargs={"num_cpus": workers, "include_dashboard": False})
