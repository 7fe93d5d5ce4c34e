"""Coupled masks: estimating a token's log-prob under a masked-diffusion LM (DiffuCoder, arXiv 2506.20639, §4.2).

A completion gets three forward passes: fully masked, masked at random with ratio p, and masked exactly at the remaining
tokens. Every token is thus masked in two of the passes, and has two log-probs.

Covered: the three masks and the estimate, as used by the learner and the published trainer, and the alternatives it is
compared with. Not covered: the keys of masks, the forward passes (ares/models/masked_diffusion.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from algorithms.keyed_sampling import keyed_uniform

MASK_RATIO_RANGE = (0.2, 0.8)
"""The mask ratio p is uniform over this range."""
PROMPT_RATIO = 0.15
"""Share of the prompt's tokens that d1 masks."""


def version_masks(mask: Tensor) -> Tensor:
    """Masks of the three passes, given that of the second: bool [...] → [3, ...]."""
    return torch.stack([torch.ones_like(mask), mask, ~mask])


def random_mask(seeds: Tensor, places: int, number: int) -> tuple[Tensor, Tensor]:
    """Random mask `number` of each row: its ratio, U(0.2, 0.8), [B, 1] float64, and where it masks, bool [B, K]."""
    low, high = MASK_RATIO_RANGE
    first = number * (places + 1)
    ratio = low + (high - low) * keyed_uniform(seeds, first)[:, None]
    place = torch.arange(first + 1, first + places + 1, device=seeds.device)
    return ratio, keyed_uniform(seeds[:, None], place) < ratio


Draw = Callable[[int], tuple[Tensor, Tensor]]
"""Draws the n-th random mask of a batch: each row's ratio [B, 1] and the mask, bool [B, K]."""


class MaskedPasses(NamedTuple):
    """Masks of V passes, bool [V, B, K], and each pass's weight in a token's estimate Σ_v w_v·l_v, [V, B, K].

    A pass that does not mask a token has weight 0 for it. prompt_ratio: probability with which each token of the prompt
    is masked, in every pass.
    """

    masks: Tensor
    weights: Tensor
    prompt_ratio: float = 0.0


def full_mask(draw: Draw) -> MaskedPasses:
    """One fully masked pass: no variance, but no context either."""
    _, mask = draw(0)
    return MaskedPasses(
        torch.ones_like(mask)[None], torch.ones(1, *mask.shape, dtype=torch.float64, device=mask.device)
    )


def masked_prompt(draw: Draw) -> MaskedPasses:
    """The same with a part of the prompt masked (diffu-GRPO: d1, arXiv 2504.12216): log f(o_k | q′ ⊕ masks)."""
    return full_mask(draw)._replace(prompt_ratio=PROMPT_RATIO)


def independent_masks(draw: Draw, passes: int) -> MaskedPasses:
    """The mean of l/p over independent masks; a token that none of them masks gets 0."""
    ratios, masks = zip(*map(draw, range(passes)), strict=True)
    weights = [_where(mask, 1 / (passes * ratio)) for ratio, mask in zip(ratios, masks, strict=True)]
    return MaskedPasses(torch.stack(masks), torch.stack(weights))


def coupled_pair(draw: Draw) -> MaskedPasses:
    """A mask and its complement: half of l/p or of l/(1 − p), without the fully masked pass."""
    ratio, mask = draw(0)
    weights = torch.stack([_where(mask, 0.5 / ratio), _where(~mask, 0.5 / (1 - ratio))])
    return MaskedPasses(version_masks(mask)[1:], weights)


def published_passes(draw: Draw, scale: float = 1.0) -> MaskedPasses:
    """Full mask and coupled pair weighted as in eq. 7, (l₁ + l₂/p or l₃/(1 − p))/2: in total 1.5 times a log-prob."""
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
    "masked_prompt": (masked_prompt, 1),
}
"""model.mask_estimate → the estimate of a token's log-prob, and the number of passes it takes."""


def _where(mask: Tensor, weight: Tensor) -> Tensor:
    """The weight where the mask is set, else 0: [B, K] float64."""
    return weight.double().expand(mask.shape) * mask
