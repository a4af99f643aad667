"""Forwarding many sequences that share prefixes, each shared token once.

The rollouts of a task share its prompt, and those of an arm its talent context. All distinct prefixes are laid
out as the nodes of a tree in one packed row; a node attends to its ancestors and itself, and its position is its depth.
Logits equal those of separate forward passes up to rounding, with gradients, at a fraction of the tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel


@dataclass(frozen=True)
class PrefixTree:
    """Distinct prefixes of a set of sequences; N nodes, parents before children."""

    tokens_N: list[int]
    depths_N: list[int]
    parents_N: list[int]
    """Index of the parent node, −1 for a first token."""
    paths: list[list[int]]
    """For each sequence the nodes of its tokens."""


def build_prefix_tree(sequences: Sequence[Sequence[int]]) -> PrefixTree:
    """The prefix tree of `sequences` (token ids)."""
    tokens: list[int] = []
    depths: list[int] = []
    parents: list[int] = []
    children: dict[tuple[int, int], int] = {}
    paths = []
    for sequence in sequences:
        node, path = -1, []
        for depth, token in enumerate(sequence):
            key = (node, token)
            if key not in children:
                children[key] = len(tokens)
                tokens.append(token)
                depths.append(depth)
                parents.append(node)
            node = children[key]
            path.append(node)
        paths.append(path)
    return PrefixTree(tokens, depths, parents, paths)


def ancestor_mask(tree: PrefixTree) -> torch.Tensor:
    """Boolean (N, N): whether the row's node attends to the column's node, i.e. is it or descends from it."""
    count = len(tree.tokens_N)
    mask_NN = torch.eye(count, dtype=torch.bool)
    for node, parent in enumerate(tree.parents_N):
        if parent >= 0:
            mask_NN[node] |= mask_NN[parent]
    return mask_NN


def tree_log_probabilities(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[int]],
    wanted: Sequence[Sequence[int]],
    temperatures: Sequence[Sequence[float]] | None = None,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Log-probabilities (and entropies) at chosen positions of sequences that share prefixes.

    Args:
        model: a causal language model whose attention takes a 4-D mask (`sdpa` or `eager`).
        sequences: token ids. Tokens after the last wanted position are not forwarded.
        wanted: for each sequence the positions (≥ 1) whose token is scored given those before it.
        temperatures: what the logits are divided by at each wanted position; 1 by default.

    Returns:
        For each sequence, log-probabilities and entropies (nats), each of shape (len(wanted[i]),).
    """
    cut = [list(ids[: max(places)]) if places else [] for ids, places in zip(sequences, wanted, strict=True)]
    tree = build_prefix_tree(cut)
    if temperatures is None:
        temperatures = [[1.0] * len(places) for places in wanted]
    scored = [
        ((path[place - 1], temperature), ids[place])
        for ids, places, path, row in zip(sequences, wanted, tree.paths, temperatures, strict=True)
        for place, temperature in zip(places, row, strict=True)
    ]
    counts = [len(places) for places in wanted]
    parameter = next(model.parameters())  # a model that several processes train is wrapped and has no `dtype`
    device, dtype = parameter.device, parameter.dtype
    if not scored:
        empty = [torch.zeros(0, device=device) for _ in counts]
        return empty, empty
    distributions = sorted({key for key, _ in scored})
    row_of = {key: row for row, key in enumerate(distributions)}
    mask = torch.zeros(len(tree.tokens_N), len(tree.tokens_N), dtype=dtype, device=device)
    mask.masked_fill_(~ancestor_mask(tree).to(device), torch.finfo(dtype).min)
    logits = model(
        input_ids=torch.tensor([tree.tokens_N], device=device),
        position_ids=torch.tensor([tree.depths_N], device=device),
        attention_mask=mask[None, None],
        logits_to_keep=torch.tensor([node for node, _ in distributions], device=device),
        use_cache=False,
    ).logits[0]
    divisors = torch.tensor([temperature for _, temperature in distributions], device=device)
    log_probabilities = torch.log_softmax(logits.float() / divisors[:, None], dim=-1)
    entropies = -(log_probabilities.exp() * log_probabilities).sum(-1)
    rows = torch.tensor([row_of[key] for key, _ in scored], device=device)
    tokens = torch.tensor([token for _, token in scored], device=device)
    return list(log_probabilities[rows, tokens].split(counts)), list(entropies[rows].split(counts))
