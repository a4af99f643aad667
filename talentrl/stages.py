"""What DVC says of the project in the current folder. Its own command is asked, so nothing is told twice."""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from talentrl.errors import InputError
from talentrl.provenance import content_digest


@dataclass(frozen=True)
class StageState:
    """A stage (one item of a matrix) and what changed since it ran; nothing, if it is up to date."""

    name: str
    changed: list[str]
    """Such as `deps: data/model is modified`."""


def stage_states() -> list[StageState]:
    """The stages of `dvc.yaml` in its order, each as it stands now: what waits for a stale one may become stale later.

    Raises:
        InputError: there is no DVC project here, or its `dvc.yaml` is broken.
    """
    names = _dvc("stage", "list", "--name-only").split()
    found = json.loads(_dvc("status", "--json") or "{}")
    return [StageState(name, [text for change in found.get(name, []) for text in _described(change)]) for name in names]


def output_with(path: Path, digest: str) -> Path | None:
    """Where the bytes of an output file are that has that digest: at `path`, else in DVC's cache; None if nowhere."""
    if path.is_file() and content_digest(path) == digest:
        return path
    cached = _cache(Path.cwd()) / "files" / "md5" / digest[:2] / digest[2:]
    return cached if cached.is_file() else None


@lru_cache(1)
def _cache(project: Path) -> Path:
    try:
        return Path(_dvc("cache", "dir").strip())
    except InputError:  # no DVC project, so no file is found there either
        return project / ".dvc" / "cache"


def _described(change: object) -> list[str]:
    """`{"changed deps": {"a": "modified"}}` as `deps: a is modified`; other changes are words already."""
    if not isinstance(change, dict):
        return [str(change)]
    lines = []
    for kind, files in change.items():
        kind = kind.removeprefix("changed ")
        lines += [f"{kind}: {file} is {how}" for file, how in files.items()] if isinstance(files, dict) else [kind]
    return lines


def _dvc(*arguments: str) -> str:
    # Another dvc holds the lock only while it saves what a stage made.
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(f"DVC: {said[0].removeprefix('ERROR: ')}")
    return done.stdout
