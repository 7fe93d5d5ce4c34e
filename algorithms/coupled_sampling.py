"""Coupled masks: how a masked-diffusion LM's log-prob of a token is estimated (DiffuCoder, arXiv 2506.20639, §4.2).

A completion is passed three times: all masked, masked at random with ratio p, and masked exactly where that left it.
Each token then has two log-probs from passes that masked it, and every token the same number of them.

Covered: the three masks and the estimate, as the learner and the published trainer use them, and the estimates that it
is compared with. Not covered: who draws the masks (ares/models/masked_diffusion.py by keys,
algorithms/published/coupled_log_probs.py from a seed), the passes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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


Draw = Callable[[int], tuple[Tensor, Tensor]]
"""Random mask number n of a batch: its ratio in each row [B, 1], and the mask, bool [B, K]."""


class MaskedPasses(NamedTuple):
    """What V passes mask, bool [V, B, K], and what each counts in a token's estimate, [V, B, K]: Σ_v w_v·l_v.

    A pass that leaves a token in sight counts nothing in it.
    """

    masks: Tensor
    weights: Tensor


def full_mask(draw: Draw) -> MaskedPasses:
    """One pass, all masked (d1, arXiv 2504.12216): no spread, and no context either."""
    _, mask = draw(0)
    return MaskedPasses(
        torch.ones_like(mask)[None], torch.ones(1, *mask.shape, dtype=torch.float64, device=mask.device)
    )


def independent_masks(draw: Draw, passes: int) -> MaskedPasses:
    """The mean of l/p over independent masks; a token that none of them masks has no log-prob, 0."""
    ratios, masks = zip(*map(draw, range(passes)), strict=True)
    weights = [_where(mask, 1 / (passes * ratio)) for ratio, mask in zip(ratios, masks, strict=True)]
    return MaskedPasses(torch.stack(masks), torch.stack(weights))


def coupled_pair(draw: Draw) -> MaskedPasses:
    """A mask and what it left: half of l/p or of l/(1 − p), without the pass under the full mask."""
    ratio, mask = draw(0)
    weights = torch.stack([_where(mask, 0.5 / ratio), _where(~mask, 0.5 / (1 - ratio))])
    return MaskedPasses(version_masks(mask)[1:], weights)


def published_passes(draw: Draw, scale: float = 1.0) -> MaskedPasses:
    """Full mask and coupled pair as `coupled_log_probs` weighs them (eq. 7): together 1.5 times a log-prob."""
    pair = coupled_pair(draw)
    full = torch.full_like(pair.weights[:1], 0.5)
    masks = torch.cat([torch.ones_like(pair.masks[:1]), pair.masks])
    return MaskedPasses(masks, scale * torch.cat([full, pair.weights]))


MASK_ESTIMATES: dict[str, tuple[Callable[[Draw], MaskedPasses], int]] = {
    "published": (published_passes, 3),
    "rescaled": (partial(published_passes, scale=2 / 3), 3),
    "coupled": (coupled_pair, 2),
    "two_masks": (partial(independent_masks, passes=2), 2),
    "three_masks": (partial(independent_masks, passes=3), 3),
    "full": (full_mask, 1),
}
"""Name (model.mask_estimate) → how a token's log-prob is estimated, and the passes that it takes."""


def _where(mask: Tensor, weight: Tensor) -> Tensor:
    """The weight where the mask is, else 0: [B, K] float64."""
    return weight.double().expand(mask.shape) * mask
