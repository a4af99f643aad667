"""A row's workspace: a clone of the project at one commit, with the row's params.yaml and the project's DVC cache.

Equal stages of different rows have equal commands, dependencies and params, so DVC's run cache, which lies in the
cache, gives their outputs instead of running them again. Why not `dvc exp run --temp`: its workspace is thrown away
when a row fails or is stopped, and with it the checkpoints that training resumes from; and it ignores Ctrl-C while a
stage runs.
"""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from talentrl.config import Params
from talentrl.errors import InputError


@dataclass(frozen=True)
class Snapshot:
    """The project's code when the sweep began: later edits do not reach the rows that still wait."""

    commit: str
    changes: bytes
    """What tracked files had beyond the commit, as a binary patch."""
    cache: str
    """Folder of the project's DVC cache."""


def take_snapshot() -> Snapshot:
    """The snapshot of the project in the working directory.

    Raises:
        InputError: it is not the root of a git repository with a commit, or no DVC project.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(".") as repo:
            cache = str(repo.cache.local_cache_dir)
        if _git("rev-parse", "--show-prefix").strip():
            raise InputError(f"{Path.cwd()}: a sweep needs the project to be the root of its git repository")
        commit = _git("rev-parse", "HEAD").decode().strip()
        return Snapshot(commit, _git("diff", "--binary", "HEAD"), cache)
    except (DvcException, subprocess.CalledProcessError) as error:
        message = error.stderr.decode().strip() if isinstance(error, subprocess.CalledProcessError) else error
        raise InputError(f"a sweep needs a git and DVC project with a commit: {message}") from error


def prepare(folder: Path, snapshot: Snapshot, params: Params) -> None:
    """Make `folder` the workspace of a row, or bring it up to date: what stages made there, and `scratch`, stays."""
    if not (folder / ".git").exists():
        shutil.rmtree(folder, ignore_errors=True)  # of a clone that was cut short
        _git("clone", "--quiet", "--shared", "--no-checkout", ".", str(folder))
    _git("-C", str(folder), "reset", "--quiet", "--hard")
    _git("-C", str(folder), "checkout", "--quiet", "--force", "--detach", snapshot.commit)
    if snapshot.changes:
        _git("-C", str(folder), "apply", "--index", "--whitespace=nowarn", input=snapshot.changes)
    values = params.model_dump()
    with (folder / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(values, file)
    _share_cache(folder, snapshot.cache)
    for path in _relative_paths(values):
        if not (folder / path).exists():  # data that is not in git
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(path.resolve())


def _share_cache(folder: Path, cache: str) -> None:
    """Let the workspace have the project's local DVC settings, its cache, and links to it instead of copies."""
    from dvc.config import Config, merge

    settings = Config(".dvc").load_one("local")
    merge(settings, {"cache": {"dir": cache, "type": ["hardlink", "copy"]}})
    with Config(str(folder / ".dvc")).edit("local") as local:
        merge(local, settings)


def _relative_paths(values: Any) -> Iterator[Path]:
    """The files and folders in the project that settings name."""
    if isinstance(values, dict | list):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _relative_paths(value)
    elif isinstance(values, str) and values and not Path(values).is_absolute() and Path(values).exists():
        yield Path(values)


def _git(*arguments: str, input: bytes | None = None) -> bytes:
    return subprocess.run(["git", *arguments], input=input, capture_output=True, check=True).stdout
