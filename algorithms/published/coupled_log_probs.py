"""Coupled log-probs with the signatures of the published code (DiffuCoder, arXiv 2506.20639).

Covered: `forward_process` (masks from a seed, one ratio per call) and `selective_log_softmax` (from the logits of all
three passes), based on algorithms/coupled_sampling.py. Draws come from local generators, never from the global one. Not
covered: the trainer (algorithms/published/coupled_grpo.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from algorithms.coupled_sampling import MASK_RATIO_RANGE, coupled_log_probs, version_masks

ROWS_PER_CHUNK = 16
"""Positions processed at a time: 16 × 151,936 logits in float32 are 10 MB, which fits the last-level cache."""


def forward_process(
    batch: Tensor,
    prompt_index: Tensor,
    mask_id: int,
    seed: int | None = None,
    accumulate: bool = False,
    gradient_accumulation_steps: int = 1,
) -> tuple[list[Tensor], list[float], Tensor]:
    """Three masked versions of a batch: all of the completion, a random part, and the rest of it (§4.2, "coupled").

    batch: [B, L] tokens; prompt_index: [L] true at the prompt. p ~ U(0.2, 0.8), one per call. `accumulate`: draw for
    one micro-batch of B / gradient_accumulation_steps rows and repeat, so that whole batch and micro-batches agree.
    Returns ([v1, v2, v3], [1, 1/p, 1/(1−p)], mask [B, L] of v2). With seed None the draw is random; the global
    generator is untouched either way. Raises ValueError on shapes that do not fit.
    """
    if batch.ndim != 2 or prompt_index.shape != batch.shape[1:]:
        raise ValueError(
            f"need batch [B, L] and prompt_index [L], got {tuple(batch.shape)} and {tuple(prompt_index.shape)}"
        )
    parts = gradient_accumulation_steps if accumulate else 1
    if len(batch) % parts:
        raise ValueError(f"{len(batch)} rows cannot be divided by gradient_accumulation_steps={parts}")
    generator = torch.Generator()  # on the CPU: one seed gives one mask on every device
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    low, high = MASK_RATIO_RANGE
    ratio = low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))
    uniform = torch.rand(len(batch) // parts, batch.shape[1], generator=generator).repeat(parts, 1)
    mask = (uniform.to(batch.device) < ratio) & ~prompt_index.bool()
    return coupled_versions(batch, prompt_index, mask_id, mask), [1.0, 1 / ratio, 1 / (1 - ratio)], mask


def coupled_versions(batch: Tensor, prompt_index: Tensor, mask_id: int, mask: Tensor) -> list[Tensor]:
    """[v1, v2, v3] of a batch [B, L]: completion fully masked, masked where `mask` [B, L] is true, and where not."""
    completion = ~prompt_index.bool()
    return [batch.masked_fill(masked & completion, mask_id) for masked in version_masks(mask)]


def selective_log_softmax(
    logits: Tensor, index: Tensor, weights: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Coupled log-prob of each token, (l₁ + w₂·l₂ or w₃·l₃)/2, from the version that masked it (eq. 7 and §4.2).

    logits: [3·I·B, K, V], per iteration the B rows of v1, then of v2, then of v3; index: [I·B, K] tokens; weights:
    [3·I]; mask: [I·B, K], true where v2 masked. Without a mask the result is l₁; without weights, too, for one
    iteration. Returns [I·B, K] in float32 (float64 for float64 logits). Sums are in that type, a few positions at a
    time; of v2 and v3 only the positions that count are read. Raises ValueError on shapes that do not fit.
    """
    if logits.ndim != 3 or index.ndim != 2 or logits.shape[:2] != (3 * len(index), index.shape[1]):
        raise ValueError(
            f"need logits [3·rows, K, V] for index [rows, K], got {tuple(logits.shape)} and {tuple(index.shape)}"
        )
    iterations = 1 if weights is None else len(weights) // 3
    if weights is not None and (weights.shape != (3 * iterations,) or not iterations):
        raise ValueError(f"weights must be [3·iterations], got {tuple(weights.shape)}")
    if len(index) % iterations:
        raise ValueError(f"{len(index)} rows cannot be divided among {iterations} iterations")
    if mask is not None and mask.shape != index.shape:
        raise ValueError(f"mask must be {tuple(index.shape)}, got {tuple(mask.shape)}")
    rows = len(index) // iterations
    row = torch.arange(len(index), device=index.device)
    first = (row // rows * 3 * rows + row % rows)[:, None].expand_as(index)  # row of v1; v2 and v3 lie B and 2B below
    place = torch.arange(index.shape[1], device=index.device).expand_as(index)
    full = _ChosenLogProbs.apply(logits, first.flatten(), place.flatten(), index.flatten()).view_as(index)
    if mask is None or weights is None:
        return full
    mask = mask.bool()
    partner = first + torch.where(mask, rows, 2 * rows)
    partial = _ChosenLogProbs.apply(logits, partner.flatten(), place.flatten(), index.flatten()).view_as(index)
    of_row = weights.to(partial.device, partial.dtype).view(iterations, 3)[row // rows]
    return coupled_log_probs(full, partial, mask, of_row[:, 1:2], of_row[:, 2:3])


class _ChosenLogProbs(torch.autograd.Function):
    """log softmax(logits[row, place])[token] of many (row, place, token), a few at a time in forward and backward."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor, places: Tensor, tokens: Tensor) -> Tensor:
        kind = torch.promote_types(logits.dtype, torch.float32)
        norm = torch.empty(len(rows), dtype=kind, device=logits.device)
        chosen = torch.empty_like(norm)
        for start in range(0, len(rows), ROWS_PER_CHUNK):
            span = slice(start, start + ROWS_PER_CHUNK)
            block = logits[rows[span], places[span]].to(kind)
            chosen[span] = block.gather(1, tokens[span, None])[:, 0]
            top = block.amax(1, keepdim=True)
            norm[span] = block.sub_(top).exp_().sum(1).log_() + top[:, 0]
        ctx.save_for_backward(logits, rows, places, tokens, norm)
        return chosen - norm

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        logits, rows, places, tokens, norm = ctx.saved_tensors
        gradient = torch.zeros_like(logits, memory_format=torch.contiguous_format)
        for start in range(0, len(rows), ROWS_PER_CHUNK):
            span = slice(start, start + ROWS_PER_CHUNK)
            factor = grad[span, None].to(norm.dtype)
            block = logits[rows[span], places[span]].to(norm.dtype).sub_(norm[span, None]).exp_().mul_(-factor)
            block.scatter_add_(1, tokens[span, None], factor)
            gradient[rows[span], places[span]] = block.to(logits.dtype)
        return gradient, None, None, None
