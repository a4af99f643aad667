"""What several folders of tests share; its place here also puts `tiny_models` on the import path."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# A busy machine makes a slow example, not a fault.
settings.register_profile("talentrl", deadline=None)
settings.load_profile("talentrl")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def byte_tokenizer() -> "Callable[..., PreTrainedTokenizerFast]":
    """Makes a tokenizer with one token a byte and the named chat template: see `tiny_models.byte_tokenizer`."""
    import tiny_models

    return tiny_models.byte_tokenizer
