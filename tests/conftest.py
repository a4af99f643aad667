"""What several folders of tests share; its place here also puts `tiny_models` on the import path."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# A busy machine makes a slow example, not a fault.
settings.register_profile("talentrl", deadline=None)
settings.load_profile("talentrl")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast
    from vllm_servers import RealServer


@pytest.fixture(scope="session")
def byte_tokenizer() -> "Callable[..., PreTrainedTokenizerFast]":
    """Makes a tokenizer with one token a byte and the named chat template: see `tiny_models.byte_tokenizer`."""
    import tiny_models

    return tiny_models.byte_tokenizer


@pytest.fixture(scope="session")
def serve_vllm(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Callable[[Path], RealServer]]":
    """Starts the real vLLM server on a model folder; all are stopped in the end."""
    import vllm_servers

    if not (vllm_servers.ENVIRONMENT / ".installed").is_file():
        pytest.skip(f"no vLLM in {vllm_servers.ENVIRONMENT} (TALENTRL_VLLM): `make serve-env` installs it")
    started: list[vllm_servers.RealServer] = []

    def serve(folder: Path) -> "RealServer":
        started.append(vllm_servers.RealServer(folder, tmp_path_factory.mktemp("vllm") / "log"))
        started[-1].wait()
        return started[-1]

    yield serve
    for server in started:
        server.stop()
