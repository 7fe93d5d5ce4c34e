"""The PPO loss with the signature of the published code (verl)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from algorithms.losses import PolicyTokens, policy_loss, ppo
from algorithms.settings import LossAvgMode, PolicySettings

NEVER_REACHED = 1e9
"""Ratios are at most e²⁰, so that this dual clip is none."""


def compute_policy_loss(
    old_log_probs: Tensor,
    log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    clip_ratio_low: float = 0.2,
    clip_ratio_high: float = 0.3,
    clip_ratio_dual: float = 3.0,
    loss_avg_mode: LossAvgMode = "token",
    ratio_level: Literal["token", "sequence"] = "token",
    importance_weights: Tensor | None = None,
    constant_length: int | None = None,
    normalizer: Tensor | float | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """`ppo`, aggregated. importance_weights: per-token factors without gradient. All tensors [B, L].

    Returns the loss and the metrics entropy_loss, ppo_kl, pg_clipfrac_higher, pg_clipfrac_lower. Raises ValueError.
    """
    dual = min(clip_ratio_dual, NEVER_REACHED)  # infinity is no setting
    settings = PolicySettings(clip_low=clip_ratio_low, clip_high=clip_ratio_high, clip_dual=dual, ratio=ratio_level)
    tokens = PolicyTokens(old_log_probs, log_probs, advantages, response_mask)
    return policy_loss(ppo(settings), tokens, importance_weights, loss_avg_mode, constant_length, normalizer)
