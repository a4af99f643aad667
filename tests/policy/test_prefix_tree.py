"""Shared prefixes forwarded once: values and gradients are those of separate forward passes."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import ARCHITECTURES, VOCABULARY, tiny_model

from talentrl.policy.prefix_tree import ancestor_mask, build_prefix_tree, tree_log_probabilities


def plain_log_probabilities(model, sequences, wanted):
    """One forward pass a sequence."""
    values, entropies = [], []
    for ids, places in zip(sequences, wanted, strict=True):
        rows = torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), dim=-1)
        before = torch.tensor([place - 1 for place in places], dtype=torch.long)
        tokens = torch.tensor([ids[place] for place in places], dtype=torch.long)
        values.append(rows[before, tokens])
        entropies.append(-(rows[before].exp() * rows[before]).sum(-1))
    return values, entropies


@pytest.fixture(scope="module")
def family():
    """Two tasks' rollouts: shared prompts, arms that part, one sequence twice, one that is a prefix, gaps."""
    draw = random.Random(3)

    def some(count):
        return [draw.randrange(VOCABULARY) for _ in range(count)]

    prompt, other = some(20), some(13)
    arm = prompt + some(5)
    sequences = [arm + some(9), arm + some(4), prompt + some(11), arm, other + some(3), arm + some(1)]
    sequences.append(list(sequences[0]))
    wanted = [[21, 22, 27, 33], [28], [30, 20], [], [1, 15], [25], [33, 26]]
    return sequences, wanted


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_values_and_gradients_equal_separate_forward_passes(architecture, attention, family):
    sequences, wanted = family
    model = tiny_model(architecture)
    if attention == "sdpa" and not model._supports_sdpa:
        pytest.skip(f"{architecture} has no sdpa in transformers")
    model.set_attn_implementation(attention)
    weights = [torch.linspace(-1, 2, len(places)) for places in wanted]
    results, gradients = [], []
    for function in (tree_log_probabilities, plain_log_probabilities):
        values, entropies = function(model, sequences, wanted)
        model.zero_grad()
        loss = sum(
            (weight * value).sum() + 0.3 * entropy.sum()
            for weight, value, entropy in zip(weights, values, entropies, strict=True)
        )
        loss.backward()
        results.append((values, entropies))
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    for tree, plain in zip(*results, strict=True):
        assert [len(value) for value in tree] == [len(places) for places in wanted]
        for a, b in zip(tree, plain, strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        scale = gradients[1][name].abs().max().item() + 1e-6
        torch.testing.assert_close(gradient, gradients[1][name], atol=1e-4 * scale, rtol=1e-3, msg=name)


def test_each_position_has_its_own_temperature(family):
    """Also where two sequences score the same node at different temperatures."""
    sequences, wanted = family
    model = tiny_model("llama")
    temperatures = [[0.5 + (row + place) % 3 for place in range(len(places))] for row, places in enumerate(wanted)]
    values, entropies = tree_log_probabilities(model, sequences, wanted, temperatures)
    for ids, places, row, value, entropy in zip(sequences, wanted, temperatures, values, entropies, strict=True):
        logits = model(torch.tensor([ids])).logits[0]
        for place, temperature, found, spread in zip(places, row, value, entropy, strict=True):
            expected = torch.distributions.Categorical(logits=logits[place - 1] / temperature)
            torch.testing.assert_close(found, expected.log_prob(torch.tensor(ids[place])), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(spread, expected.entropy(), atol=1e-5, rtol=1e-4)


def test_shared_tokens_are_forwarded_once_and_unwanted_ends_not_at_all():
    model = tiny_model("llama")
    forwarded = []
    model.get_input_embeddings().register_forward_hook(lambda module, ids, out: forwarded.append(ids[0].numel()))
    prompt = list(range(30))
    sequences = [[*prompt, 40, 41, 42], [*prompt, 50, 51], [*prompt, 50, 52, 60, 61, 62]]
    tree_log_probabilities(model, sequences, [[32], [31], [31]])
    assert forwarded == [30 + 2 + 1]


def test_nothing_wanted_is_nothing_forwarded():
    values, entropies = tree_log_probabilities(tiny_model("llama"), [[1, 2], [3]], [[], []])
    assert [len(value) for value in values] == [len(value) for value in entropies] == [0, 0]


small_sequences = st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=6)


@given(small_sequences)
def test_tree_holds_each_distinct_prefix_once(sequences):
    tree = build_prefix_tree(sequences)
    prefixes = {tuple(ids[: end + 1]) for ids in sequences for end in range(len(ids))}
    assert len(tree.tokens_N) == len(tree.depths_N) == len(tree.parents_N) == len(prefixes)
    for ids, path in zip(sequences, tree.paths, strict=True):
        assert [tree.tokens_N[node] for node in path] == ids
        assert [tree.depths_N[node] for node in path] == list(range(len(ids)))
        assert [tree.parents_N[node] for node in path] == [-1, *path][: len(path)]
    assert all(parent < node for node, parent in enumerate(tree.parents_N))


@given(small_sequences)
def test_a_node_attends_to_the_tokens_before_it_in_its_sequence(sequences):
    tree = build_prefix_tree(sequences)
    mask = ancestor_mask(tree)
    for path in tree.paths:
        for place, node in enumerate(path):
            assert mask[node].nonzero().flatten().tolist() == sorted(path[: place + 1])
