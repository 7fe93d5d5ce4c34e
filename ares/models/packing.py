"""Packing: rows of unequal length in one sequence without padding, a shared prompt only once.

    rows              A  p q r a b      prompt p q r, response a b        position   0 1 2 3 4
                      B  p q r c        the same prompt, response c                  0 1 2 3
    the sequence         p q r a b c    width 6
    place             A  0 1 2 3 4      where a row's tokens lie in it: B's prompt is A's
                      B  0 1 2 5
    blocks [rows, 5]  A  0 1 2 3 4      rows of similar length attend side by side, each to its own tokens;
                      B  0 1 2 5 0      B is padded with its first place
    first_met            0 1 2 3 4 8    what attention gives for each place, found in the flattened blocks

Covered: micro-batches, the place of each token in the sequence and the blocks in which attention regroups rows (done by
packed_attention.py), an even division of rows among ranks. Where a model cannot tell packed rows apart, each row is a
sequence of its own, padded on the right. Not covered: prefixes shared beyond the prompt.
"""

import heapq
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

SIMILAR = 0.75
"""Rows attend in one block if the shortest has at least this share of the longest's tokens."""


@dataclass(frozen=True)
class RowSizes:
    """Numbers of tokens of rows, and which rows have the same prompt: [B] each."""

    tokens: Tensor
    prompts: Tensor
    """Tokens of the prompt, counted in `tokens`."""
    group: Tensor
    """Rows with the same number have the same prompt."""

    @classmethod
    def alone(cls, tokens: Tensor) -> "RowSizes":
        """Rows that share nothing."""
        return cls(tokens, torch.zeros_like(tokens), torch.arange(len(tokens), device=tokens.device))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: Tensor) -> "RowSizes":
        return RowSizes(self.tokens[rows], self.prompts[rows], self.group[rows])

    def to(self, device: torch.device | str) -> "RowSizes":
        """The same on a device."""
        return RowSizes(self.tokens.to(device), self.prompts.to(device), self.group.to(device))

    def shared(self) -> Tensor:
        """Tokens of each row that the previous row, with the same prompt, brings into the packed sequence: [B]."""
        again = torch.zeros_like(self.group, dtype=torch.bool)
        again[1:] = self.group[1:] == self.group[:-1]
        return torch.where(again, self.prompts, 0)


@dataclass(frozen=True)
class Layout:
    """Where the tokens of rows lie in the array [sequences, width] that a model is given."""

    width: int
    sequences: int
    place: Tensor
    """[N] index of each token, row after row, in the flattened array; rows with one prompt share its places."""
    row: Tensor
    """[N] row of each token."""
    position: Tensor
    """[N] position of each token in its row."""
    leads: list[bool]
    """For each row, whether its prompt has places of its own rather than an earlier row's."""
    blocks: list[Tensor]
    """Places [rows, tokens] of rows of similar length, padded on the right; empty if rows are not packed."""
    first_met: Tensor
    """[width]: index of the first occurrence of each place in the blocks, flattened and concatenated."""

    def to(self, device: torch.device | str) -> "Layout":
        """The same on a device."""
        tensors = {name: getattr(self, name).to(device) for name in ("place", "row", "position", "first_met")}
        return replace(self, **tensors, blocks=[block.to(device) for block in self.blocks])

    def position_ids(self) -> Tensor:
        """[sequences, width]; padding has position 0."""
        ids = torch.zeros(self.sequences * self.width, dtype=torch.long, device=self.place.device)
        ids[self.place] = self.position
        return ids.view(self.sequences, self.width)


def layout(sizes: RowSizes, pack: bool) -> Layout:
    """Lay rows out: packed, with a prompt once for consecutive rows that share it, or each row by itself."""
    tokens, device = sizes.tokens, sizes.tokens.device
    row = torch.repeat_interleave(torch.arange(len(sizes), device=device), tokens)
    position = torch.arange(len(row), device=device) - (tokens.cumsum(0) - tokens)[row]
    if not pack:
        width = int(tokens.max())
        return Layout(width, len(sizes), row * width + position, row, position, [True] * len(sizes), [], row[:0])
    shared = sizes.shared()
    own = tokens - shared
    # A row's own tokens begin at `start`; shared ones lie where the first row of its group has them.
    start = own.cumsum(0) - own
    leader = torch.where(shared == 0, torch.arange(len(sizes), device=device), 0).cummax(0).values
    place = torch.where(position < shared[row], start[leader][row] + position, start[row] + position - shared[row])
    blocks = _blocks(tokens, place)
    met = torch.cat([block.flatten() for block in blocks])
    width, times = int(own.sum()), torch.arange(len(met), device=device)
    first_met = torch.full((width,), len(met), device=device).scatter_reduce(0, met, times, "amin")
    return Layout(width, 1, place, row, position, (shared == 0).tolist(), blocks, first_met)


def _blocks(tokens: Tensor, place: Tensor) -> list[Tensor]:
    """Places of rows of similar length, [rows, tokens] a block; a row is padded with its first token."""
    ordered, order = tokens.sort(descending=True, stable=True)
    lengths, first = ordered.tolist(), [0]
    for number, length in enumerate(lengths):
        if length < SIMILAR * lengths[first[-1]]:
            first.append(number)
    begins = tokens.cumsum(0) - tokens
    blocks = []
    for start, end in pairwise([*first, len(lengths)]):
        chosen = order[start:end]
        offset = torch.arange(lengths[start], device=tokens.device)
        offset = torch.where(offset < tokens[chosen, None], offset, 0)
        blocks.append(place[begins[chosen, None] + offset])
    return blocks


def micro_batches(sizes: RowSizes, token_budget: int, pack: bool = True) -> list[Tensor]:
    """Divide rows into micro-batches of at most `token_budget` tokens (or one longer row), longest rows first.

    Packed, rows with one prompt stay together and the prompt counts once; otherwise each row counts as the longest.
    """
    order = torch.argsort(sizes.tokens, descending=True, stable=True)
    if pack:
        number = torch.unique(sizes.group, return_inverse=True)[1]
        longest = torch.zeros_like(sizes.tokens).scatter_reduce(0, number, sizes.tokens, "amax")[number]
        for key in (number, -longest):
            order = order[torch.argsort(key[order], stable=True)]
    sizes = sizes[order]
    whole, own = sizes.tokens.tolist(), (sizes.tokens - sizes.shared()).tolist()
    batches: list[Tensor] = []
    start = tokens = 0
    for row in range(len(whole)):
        cost = own[row] if pack else whole[start]
        if row > start and tokens + cost > token_budget:
            batches.append(order[start:row])
            start, tokens = row, 0
            cost = whole[row]
        tokens += cost
    return [*batches, order[start:]]


def share_rows(sizes: RowSizes, ranks: int) -> list[Tensor]:
    """Rows for each rank, of about equally many tokens; rows with one prompt together where that is no slower."""
    number = torch.unique(sizes.group, return_inverse=True)[1]
    groups = torch.zeros(int(number.max()) + 1, dtype=torch.long).index_add(0, number, sizes.tokens - sizes.shared())
    by_group = torch.tensor(_divided(groups.tolist(), ranks))[number]
    by_row = torch.tensor(_divided(sizes.tokens.tolist(), ranks))
    divisions = [[(part == rank).nonzero()[:, 0] for rank in range(ranks)] for part in (by_group, by_row)]

    def slowest(division: list[Tensor]) -> int:
        parts = [sizes[rows] for rows in division]
        return max(int((part.tokens - part.shared()).sum()) for part in parts)

    return min(divisions, key=slowest)


def _divided(sizes: list[int], parts: int) -> list[int]:
    """The part of each item, with about equal sums (Graham's longest-processing-time rule)."""
    heap = [(0, part) for part in range(parts)]
    chosen = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        load, part = heapq.heappop(heap)
        chosen[item] = part
        heapq.heappush(heap, (load + sizes[item], part))
    return chosen
