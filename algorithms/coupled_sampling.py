"""Coupled masks: how a masked-diffusion LM's log-prob of a token is estimated (DiffuCoder, arXiv 2506.20639, §4.2).

A completion is passed three times: all masked, masked at random with ratio p, and masked exactly where that left it.
Each token then has two log-probs from passes that masked it, and every token the same number of them.

Covered: the three masks and the estimate, as the learner and the published trainer use them. Not covered: who draws the
masks (ares/models/masked_diffusion.py by keys, algorithms/published/coupled_log_probs.py from a seed), the passes.
"""

from __future__ import annotations

import torch
from torch import Tensor

MASK_RATIO_RANGE = (0.2, 0.8)
"""p is uniform on it."""


def version_masks(mask: Tensor) -> Tensor:
    """What the three passes mask, given what the second one does: bool [...] → [3, ...]."""
    return torch.stack([torch.ones_like(mask), mask, ~mask])


def coupled_log_probs(full: Tensor, partial: Tensor, mask: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """(l₁ + w₂·l₂ or w₃·l₃)/2 (eq. 7): the log-prob under the full mask and that of the pass which masked the token.

    full, partial: log-probs; mask: true where the second pass masked; second, third: weights 1/p and 1/(1 − p). All of
    one shape, or broadcast to it.
    """
    return (full + torch.where(mask, second, third).to(partial.dtype) * partial) / 2
