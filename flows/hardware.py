"""The GPUs of a machine as slots of a Prefect concurrency limit: who wants to compute on one takes its slot first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prefect.client.orchestration import get_client
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectNotFound

from flows.child import StageFailed
from talentrl.config import HardwareSection

GPU_LIMIT = "gpu"
LEASE_SECONDS = 60  # the shortest that Prefect takes: so long does a holder that was killed keep its slots


@contextmanager
def gpu_slots(hardware: HardwareSection, log: Callable[[str], None]) -> Iterator[None]:
    """Hold as many slots of the limit as `hardware.gpus` says; wait until they are free, which `log` is told.

    The slots come back at the end of the block, and within two minutes if this process is killed. While Prefect's
    server does not answer, the block goes on.

    Raises:
        StageFailed: there is no such limit, or it has fewer slots.
    """
    if not hardware.gpus:
        yield
        return
    with get_client(sync_client=True) as client:
        try:
            slots = client.read_global_concurrency_limit_by_name(GPU_LIMIT).limit
        except ObjectNotFound:
            raise StageFailed(
                f"hardware.gpus is {hardware.gpus}, but Prefect has no concurrency limit `{GPU_LIMIT}`; "
                "`python -m flows.setup` creates it"
            ) from None
    if slots < hardware.gpus:
        raise StageFailed(
            f"hardware.gpus is {hardware.gpus}, but Prefect's concurrency limit `{GPU_LIMIT}` has {slots} slots; "
            f"`prefect gcl update {GPU_LIMIT} --limit N` changes it"
        )
    log(f"Takes {hardware.gpus} of the {slots} slots of `{GPU_LIMIT}` when they are free")
    with concurrency(
        GPU_LIMIT,
        occupy=hardware.gpus,
        lease_duration=LEASE_SECONDS,
        strict=True,
        raise_on_lease_renewal_failure=False,
    ):
        yield
