"""Where a run came from: the code, the data and the pipeline that it is part of."""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
from pathlib import Path

import psutil

from talentrl.files import sha256

FLOW_RUN = "TALENTRL_FLOW_RUN_ID"  # set by a Prefect flow for its stages' processes
SWEEP_ROW = "TALENTRL_SWEEP_ROW"  # SWEEP/ROW, set for the stages of a sweep's row


def content_digest(path: Path) -> str:
    """The digest DVC records for a file (MD5 of its bytes) or a folder (MD5 of its listing, with `.dir`)."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "md5").hexdigest()
    files = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
    listing = [{"md5": content_digest(file), "relpath": name} for name, file in files]
    return hashlib.md5(json.dumps(listing, sort_keys=True).encode()).hexdigest() + ".dir"


def provenance() -> dict[str, str]:
    """The code, data and flow that a run belongs to, as far as they are known here."""
    tags = {}
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        tags["git.commit"] = _git("rev-parse", "HEAD")
        # `dvc.lock` changes while a pipeline runs and has a tag of its own; settings are recorded as params.
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!dvc.lock", ":!params.yaml")
        tags["git.dirty"] = "true" if changed else "false"
    with contextlib.suppress(OSError):
        tags["dvc.lock.sha256"] = sha256(Path("dvc.lock").read_bytes())
    if flow_run := os.environ.get(FLOW_RUN) or os.environ.get("PREFECT__FLOW_RUN_ID"):
        tags["prefect.flow_run_id"] = flow_run
    if row := os.environ.get(SWEEP_ROW):
        tags["sweep"], tags["sweep.row"] = row.split("/", 1)
    return tags


def pipeline_key() -> str:
    """Names the pipeline that this process is a stage of."""
    if flow_run := os.environ.get(FLOW_RUN):
        return flow_key(flow_run, os.environ.get(SWEEP_ROW))
    own = psutil.Process()
    for process in own.parents():
        with contextlib.suppress(psutil.Error):
            # `/somewhere/python /somewhere/dvc repro` or `python -m dvc repro`
            if any(Path(word).stem == "dvc" for word in process.cmdline()[:3]):
                return _process_key(process)
    return _process_key(own)


def flow_key(flow_run: str, row: str | None) -> str:
    """Names the pipeline of a Prefect flow run, or of the row (SWEEP/ROW) of one that is a sweep."""
    return "/".join(["flow", flow_run, *filter(None, [row])])


def process_key() -> str:
    """Names this process among all that ever ran on any machine."""
    return _process_key(psutil.Process())


def is_alive(process: str) -> bool:
    """Whether the process of that key runs; one of another machine is taken to."""
    host, _, rest = process.rpartition("/")[0].rpartition("/")
    if host != socket.gethostname():
        return bool(host)
    try:
        return _process_key(psutil.Process(int(rest))) == process
    except psutil.Error:
        return False


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _process_key(process: psutil.Process) -> str:
    # Counted from the machine's start, since a corrected clock would move the time of day; a pid comes again.
    return f"{socket.gethostname()}/{process.pid}/{process.create_time() - psutil.boot_time():.1f}"
