"""Coupled log-probs with the signatures of the published code (DiffuCoder, arXiv 2506.20639).

Covered: `forward_process` (masks from a seed, one ratio per call) and `selective_log_softmax` (from the logits of all
three passes), based on algorithms/coupled_sampling.py. Draws come from local generators, never from the global one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from algorithms.advantages import widened
from algorithms.coupled_sampling import MASK_RATIO_RANGE, coupled_log_probs, version_masks


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
    Returns ([v1, v2, v3], [1, 1/p, 1/(1−p)], mask [B, L] of v2); with seed None the draw is random. Raises ValueError.
    """
    if batch.ndim != 2 or prompt_index.shape != batch.shape[1:]:
        shapes = f"{tuple(batch.shape)} and {tuple(prompt_index.shape)}"
        raise ValueError(f"need batch [B, L] and prompt_index [L], got {shapes}")
    parts = gradient_accumulation_steps if accumulate else 1
    if len(batch) % parts:
        raise ValueError(f"{len(batch)} rows cannot be divided by gradient_accumulation_steps={parts}")
    generator = torch.Generator()  # on the CPU: one seed gives one mask on every device
    generator.seed() if seed is None else generator.manual_seed(seed)
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
    iteration. Returns [I·B, K] in float32 (float64 for float64 logits), made row by row. Raises ValueError.
    """
    iterations, left = (1, 0) if weights is None else divmod(len(weights), 3)
    if logits.shape[:2] != (3 * len(index), index.shape[1]) or (mask is not None and mask.shape != index.shape):
        shapes = [None if given is None else list(given.shape) for given in (index, logits, mask)]
        raise ValueError("index {} needs logits [3·rows, K, V] and mask [rows, K], got {} and {}".format(*shapes))
    if left or not iterations or len(index) % iterations:
        raise ValueError(
            f"{len(index)} rows cannot be divided among {iterations} iterations (of 3 weights, {left} left)"
        )
    rows, versions, estimates = len(index) // iterations, logits.unbind(0), []
    for row, tokens in enumerate(index):
        iteration, first = row // rows, row // rows * 3 * rows + row % rows  # v2 and v3 lie B and 2B rows below v1
        of_row = [tokens, *versions[first : first + 2 * rows + 1 : rows]]
        if mask is not None and weights is not None:
            of_row += [mask[row].bool(), weights.view(-1, 3)[iteration]]
        estimates.append(checkpoint(_estimate, *of_row, use_reentrant=False))
    return torch.stack(estimates)


def _estimate(
    tokens: Tensor, full: Tensor, second: Tensor, third: Tensor, mask: Tensor | None = None, weights: Any = None
) -> Tensor:
    """Log-probs [K] from the logits [K, V] of the three versions; without a mask and weights, from those of v1."""
    if mask is None:
        return _log_probs(full, tokens)
    partial = _log_probs(torch.where(mask[:, None], second, third), tokens)
    return coupled_log_probs(_log_probs(full, tokens), partial, mask, weights[1], weights[2])


def _log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    return widened(logits).log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
