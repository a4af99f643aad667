"""Writing files whole or not at all, and content digests."""

import hashlib
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary sibling of `path`; rename it over `path` on success, remove it on failure.

    Works for a file or a folder, whichever the caller creates. A folder that already stands at `path` is
    replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    old = temporary.with_suffix(".old.part")
    try:
        yield temporary
        temporary.stat()  # raises if nothing was written, before anything is replaced
        if path.is_dir():
            path.replace(old)  # no folder can be replaced in one step, and removing it takes a while
        temporary.replace(path)
    finally:
        for leftover in (temporary, old):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()
