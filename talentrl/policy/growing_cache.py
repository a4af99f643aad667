"""Keys and values of conversations that grow token by token."""

from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

ROOM = 64
"""Tokens for which memory is kept free behind those that are stored."""


class GrowingLayer(DynamicLayer):
    """transformers' DynamicLayer, with room for the next tokens: `keys` and `values` are views of larger tensors.

    DynamicLayer concatenates, so that each token copies all before it. Of 64 conversations of 1,500 tokens, a CPU then
    spends twice as long on copying as on attention.
    """

    keys: torch.Tensor
    values: torch.Tensor
    _keys: torch.Tensor
    _values: torch.Tensor

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Begin with no token, as the first states' shapes have it."""
        super().lazy_initialization(key_states, value_states)
        self._keys = self.keys = key_states[:, :, :0]
        self._values = self.values = value_states[:, :, :0]

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store states (B, heads, new tokens, size) behind the others; return all (B, heads, tokens, size)."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self._keys, self.keys = _append(self._keys, self.keys, _multiplied(key_states))
        self._values, self.values = _append(self._values, self.values, _multiplied(value_states))
        return self.keys, self.values


def _multiplied(states: torch.Tensor) -> torch.Tensor:
    """The states as attention multiplies them: under autocast it would convert all of them again for every token."""
    kind = states.device.type
    return states.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else states


def _append(room: torch.Tensor, stored: torch.Tensor, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory and its view of `stored` with `new` behind it.

    The memory is `room` where `stored` is its beginning and `new` fits behind that. Selecting rows of the cache, for
    one, puts `stored` elsewhere.
    """
    start, end = stored.shape[2], stored.shape[2] + new.shape[2]
    if stored.data_ptr() != room.data_ptr() or stored.shape[:2] != room.shape[:2] or end > room.shape[2]:
        room = new.new_empty(new.shape[0], new.shape[1], end + ROOM, new.shape[3])
        room[:, :, :start] = stored
    room[:, :, start:end] = new
    return room, room[:, :, :end]
