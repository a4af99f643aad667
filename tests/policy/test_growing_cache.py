"""The cache with room holds what transformers' own holds, whatever happens to it in between."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from talentrl.policy.growing_cache import ROOM, GrowingLayer

WIDTHS = st.integers(1, ROOM + 3)
ROWS = st.lists(st.integers(0, 1), min_size=2, max_size=2).map(torch.tensor)


def states(generator: torch.Generator, width: int, size: int) -> torch.Tensor:
    return torch.rand(2, 3, width, size, generator=generator)


@settings(max_examples=30)
@given(st.lists(WIDTHS | ROWS, min_size=1, max_size=6))
def test_it_holds_what_a_dynamic_layer_holds(steps: list[int | torch.Tensor]) -> None:
    """Tokens are added (a number) and rows selected (their indices) in any order; keys and values differ in size."""
    generator = torch.Generator().manual_seed(0)
    caches = [Cache(layer_class_to_replicate=kind) for kind in (GrowingLayer, DynamicLayer)]
    for step in [1, *steps]:
        if isinstance(step, torch.Tensor):
            for cache in caches:
                cache.batch_select_indices(step)
            continue
        keys, values = states(generator, step, 4), states(generator, step, 5)
        ours, theirs = (cache.update(keys, values, 0) for cache in caches)
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[1], theirs[1])
        assert caches[0].get_seq_length() == caches[1].get_seq_length()


def test_a_token_is_stored_without_copying_the_others() -> None:
    """And what was returned before stays as it was."""
    layer = GrowingLayer()
    first, _ = layer.update(torch.ones(2, 3, 5, 4), torch.ones(2, 3, 5, 4))
    second, _ = layer.update(torch.zeros(2, 3, 1, 4), torch.zeros(2, 3, 1, 4))
    assert second.data_ptr() == first.data_ptr()
    assert (first.shape[2], second.shape[2]) == (5, 6)
    assert bool((first == 1).all())
