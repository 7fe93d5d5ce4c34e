"""An entropy bonus: a term −c·H of the loss that keeps the policy from settling too early.

Covered: its gradient, a constant or adaptive coefficient c, the restriction to the tokens of highest entropy. Not
covered: AEPO's entropy reward (rewards/aepo.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from algorithms.advantages import masked_mean
from algorithms.kl import LOG_RATIO_LIMIT
from algorithms.losses import average_loss
from algorithms.settings import EntropyBonusSettings

MOST = 1.0
"""Bound of an adaptive coefficient: beyond it the bonus drowns every reward."""


def entropy_bonus_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    entropies: Tensor,
    coefs: Tensor,
    mask: Tensor,
    importance_weights: Tensor | None = None,
    **averaging: Any,
) -> Tensor:
    """−avg(c·H), with an unbiased estimate of its gradient from the sampled tokens.

    ∇H = −E[∇ln π·(ln π + H)] over tokens drawn from π; those of an older policy μ count π/μ, π/π_old times the
    importance weight π_old/μ. So no gradient has to pass through the whole vocabulary, at the price of some noise.
    log_probs (with gradient), old_log_probs, entropies under the current policy (nats), coefs, mask, importance_weights
    (None: μ is π_old): [B, L]. averaging: as `average_loss` takes it.
    """
    padding = ~(mask > 0)
    log_probs, old = log_probs.masked_fill(padding, 0.0), old_log_probs.masked_fill(padding, 0.0)
    now, entropies = log_probs.detach(), entropies.detach().masked_fill(padding, 0.0)
    weight = (now - old).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp() * (now + entropies)
    if importance_weights is not None:
        weight = weight * importance_weights.masked_fill(padding, 0.0)
    return average_loss(coefs * (weight * (log_probs - now) - entropies), mask, **averaging)


class EntropyBonus:
    """The coefficient c of every token of a batch, from the settings `algorithm.entropy_bonus`."""

    def __init__(self, settings: EntropyBonusSettings) -> None:
        self.settings, self.coef = settings, settings.coef

    def coefficients(self, entropies: Tensor, mask: Tensor) -> Tensor:
        """c where the bonus acts, else 0: [B, L]; then c moves towards the target (Skywork-OR1, arXiv 2505.22312).

        entropies (nats), mask: [B, L] of a whole batch. With a target, the bonus acts only on batches whose mean is not
        above it.
        """
        settings, coef = self.settings, self.coef
        if settings.target is not None:
            mean = float(masked_mean(entropies, mask))
            coef = self.coef if mean <= settings.target else 0.0
            step = settings.step if mean < settings.target else -settings.step
            self.coef = min(max(self.coef + step, 0.0), MOST)
        acts = mask > 0
        if settings.share < 1 and bool(acts.any()):
            least = np.quantile(entropies[acts].numpy(), 1.0 - settings.share)  # torch's takes 2²⁴ values at most
            acts = acts & (entropies >= float(least))
        return torch.where(acts, coef, 0.0)

    def metrics(self) -> dict[str, float]:
        """The coefficient of the next batch."""
        return {"actor/entropy_coef": self.coef}

    def state_dict(self) -> dict[str, float]:
        """The whole state."""
        return {"coef": self.coef}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue from a state; a coefficient that does not adapt is that of the settings."""
        if self.settings.target is not None:
            self.coef = state["coef"]
