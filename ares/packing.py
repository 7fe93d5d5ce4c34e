"""Rows of unequal length through a model: micro-batches within a token budget, rows laid side by side without padding.

Covered: which rows pass together, where each of their tokens lies, the rows' fair division among ranks. Attention is
kept within a row by position ids that begin anew with each row; transformers builds the block-diagonal mask from them.
A mask grows with the square of the width, and on a CPU so does its cost: packs are 512 tokens wide. Longer rows keep a
line of their own beside rows of similar length. Not covered: variable-length attention kernels of GPUs.
"""

import heapq
from dataclasses import dataclass

import torch
from torch import Tensor

PACK_WIDTH = 512


@dataclass(frozen=True)
class Layout:
    """Where the tokens of some rows lie in the array [lines, width] that a model is given."""

    width: int
    lines: int
    place: Tensor
    """[N] of each token, row after row: its index in the flattened array."""
    row: Tensor
    """[N] row of each token."""
    position: Tensor
    """[N] position of each token in its row."""

    @property
    def rows(self) -> int:
        """How many rows are laid out."""
        return int(self.row[-1]) + 1

    @property
    def packed(self) -> bool:
        """Whether a line holds several rows."""
        return len(self.row) > 0 and self.lines <= int(self.row[-1])

    def position_ids(self) -> Tensor:
        """[lines, width]; a place that holds no token has position 0 and so is a row of its own."""
        ids = torch.zeros(self.lines * self.width, dtype=torch.long, device=self.place.device)
        ids[self.place] = self.position
        return ids.view(self.lines, self.width)


def layout(lengths: Tensor, pack: bool) -> Layout:
    """Rows of these lengths [B], packed where that is allowed and none is longer than PACK_WIDTH, else one a line."""
    sizes = lengths.tolist()
    lines, loads = list(range(len(sizes))), sizes
    if pack and max(sizes) <= PACK_WIDTH:
        fewest = -(-sum(sizes) // PACK_WIDTH)
        # Rows near a third or a half of the width fill one line more with less left over.
        tried = [_divided(sizes, parts) for parts in range(fewest, min(fewest + 3, len(sizes) + 1))]
        lines, loads = min([(lines, loads), *tried], key=lambda division: len(division[1]) * max(division[1]))
    offsets, filled = [0] * len(sizes), [0] * len(loads)
    for index, line in enumerate(lines):
        offsets[index] = filled[line]
        filled[line] += sizes[index]
    width = max(loads)
    device = lengths.device
    start = torch.tensor([line * width + offset for line, offset in zip(lines, offsets, strict=True)], device=device)
    row = torch.repeat_interleave(torch.arange(len(sizes), device=device), lengths)
    position = torch.arange(len(row), device=device) - (lengths.cumsum(0) - lengths)[row]
    return Layout(width, len(loads), start[row] + position, row, position)


def micro_batches(lengths: Tensor, token_budget: int, pack: bool = True) -> list[Tensor]:
    """Rows [B] that pass together, longest first: at most `token_budget` tokens, or one row that has more.

    Rows that are packed count their own tokens, other rows the longest's length each. Every row is in one batch.
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    sizes = lengths[order].tolist()
    batches: list[Tensor] = []
    start = tokens = 0
    for row, size in enumerate(sizes):
        side_by_side = pack and size <= PACK_WIDTH
        cost = size if side_by_side else sizes[start]
        first_packed = side_by_side and sizes[start] > PACK_WIDTH
        if row > start and (tokens + cost > token_budget or first_packed):
            batches.append(order[start:row])
            start, tokens = row, 0
            cost = size
        tokens += cost
    return [*batches, order[start:]]


def share_rows(lengths: Tensor, ranks: int) -> list[Tensor]:
    """Rows [B] for each rank, about equally many tokens each (longest first, to the rank that has least)."""
    ranked = torch.tensor(_divided(lengths.tolist(), ranks)[0])
    return [(ranked == rank).nonzero()[:, 0] for rank in range(ranks)]


def _divided(sizes: list[int], parts: int) -> tuple[list[int], list[int]]:
    """Part of each item and load of each part (Graham's longest-processing-time rule)."""
    heap = [(0, part) for part in range(parts)]
    chosen = [0] * len(sizes)
    for item in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        load, part = heapq.heappop(heap)
        chosen[item] = part
        heapq.heappush(heap, (load + sizes[item], part))
    return chosen, [load for load, _ in sorted(heap, key=lambda entry: entry[1])]
