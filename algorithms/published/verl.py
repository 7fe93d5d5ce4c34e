"""KL controllers, KL penalty and PPO loss with the signatures of the published code (verl, ARES).

Thin wrappers around those of the training loop; `update` takes plain numbers instead of a `BatchKL`.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from torch import Tensor

from algorithms.kl import BatchKL, compute_kl, masked_kl, penalized_rewards
from algorithms.kl_controllers import AdaptiveKL, DualAscentKL, FixedKL, KLController
from algorithms.losses import PolicyTokens, policy_loss, ppo
from algorithms.protocol import DataProto
from algorithms.settings import KLKind, KLMode, KLSettings, LossAvgMode, OneOrEach, PolicySettings


class FixedKLController(FixedKL):
    """A KL coefficient that never changes."""

    def __init__(self, kl_coef: float) -> None:
        super().__init__(KLSettings(coef=kl_coef))

    def update(self, current_kl: BatchKL | float, n_steps: int = 0) -> None:
        """Nothing to adapt."""


class AdaptiveKLController(AdaptiveKL):
    """One coefficient that follows a KL target."""

    def __init__(self, init_kl_coef: float, target_kl: float, horizon: float) -> None:
        super().__init__(KLSettings(coef=init_kl_coef, target=target_kl, horizon=horizon))

    def update(self, current_kl: BatchKL | float, n_steps: int = 0) -> None:
        """current_kl in nats, n_steps sequences. Raises ValueError if current_kl is not finite."""
        super().update(current_kl if isinstance(current_kl, BatchKL) else BatchKL(current_kl, n_steps, {}))


class TokenLevelAdaptiveKLController(DualAscentKL):
    """A coefficient per difficulty bucket by dual ascent; as published, it compounds and does not use `horizon`."""

    def __init__(
        self, init_kl_coefs: OneOrEach, target_kls: OneOrEach, horizon: float = 10000.0, mode: KLMode = "compound"
    ) -> None:
        super().__init__(KLSettings(coef=init_kl_coefs, target=target_kls, mode=mode))

    def update(self, current_kls: BatchKL | Mapping[str, float], n_steps: Mapping[str, int] | None = None) -> None:
        """Mean KL (nats) of each bucket in the batch; other buckets keep their λ. n_steps, per bucket, is not used."""
        super().update(current_kls if isinstance(current_kls, BatchKL) else BatchKL(0.0, 0, current_kls))


def get_kl_controller(config: Any) -> KLController:
    """The controller named by `config.kl_type`: "fixed", "adaptive" or "token_adaptive". Raises ValueError otherwise.

    config: kl_coef and, where the type needs them, kl_target, kl_horizon and kl_mode. "token_adaptive" takes kl_coef
    and kl_target as one number for all buckets or one per bucket.
    """
    if config.kl_type == "token_adaptive":
        return TokenLevelAdaptiveKLController(config.kl_coef, config.kl_target, config.kl_horizon, config.kl_mode)
    if config.kl_type == "adaptive":
        return AdaptiveKLController(config.kl_coef, config.kl_target, config.kl_horizon)
    if config.kl_type == "fixed":
        return FixedKLController(config.kl_coef)
    raise ValueError(f"unknown KL controller {config.kl_type!r} (one of fixed, adaptive, token_adaptive)")


def apply_kl_penalty(
    data: DataProto, kl_ctrl: KLController, kl_penalty: KLKind = "kl"
) -> tuple[DataProto, dict[str, float]]:
    """KL as a penalty in the reward (Ziegler et al., arXiv 1909.08593, eq. 2); then the controller updates.

    token_level_rewards = token_level_scores − coef·KL(old ‖ ref)·mask. Needs token_level_scores, old_log_probs,
    ref_log_probs, response_mask [B, L] and, for a controller per bucket, `difficulty`; "full" reads
    old_vocab_log_probs and ref_vocab_log_probs [B, L, V] instead of the two log-prob fields.
    Returns the same `data` with token_level_rewards written, and metrics (nats): critic/kl, critic/kl_coef and the
    controller's own, all before its update.
    """
    kind = "vocab_log_probs" if kl_penalty == "full" else "log_probs"
    token_kl = compute_kl(data.tensor(f"old_{kind}"), data.tensor(f"ref_{kind}"), kl_penalty)
    kl, row_kl = masked_kl(token_kl, data.tensor("response_mask"))
    labels = data.non_tensor_batch.get("difficulty")
    seen = BatchKL(float(row_kl.mean()), len(data), {}) if labels is None else BatchKL.of(row_kl, labels)
    coefficients = kl_ctrl.coefficients(np.full(len(data), None) if labels is None else labels)
    data.batch["token_level_rewards"] = penalized_rewards(data.tensor("token_level_scores"), coefficients, kl)
    metrics = seen.metrics(coefficients) | kl_ctrl.metrics()
    kl_ctrl.update(seen)
    return data, metrics


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
    **more: Any,
) -> tuple[Tensor, dict[str, float]]:
    """`ppo`, aggregated. All tensors [B, L]. more: importance_weights, constant_length, normalizer (`policy_loss`).

    Returns the loss and the metrics entropy_loss, ppo_kl, pg_clipfrac_higher, pg_clipfrac_lower. Raises ValueError.
    """
    dual = min(clip_ratio_dual, 1e9)  # infinity is no setting, and no ratio is above e²⁰
    settings = PolicySettings(clip_low=clip_ratio_low, clip_high=clip_ratio_high, clip_dual=dual, ratio=ratio_level)
    tokens = PolicyTokens(old_log_probs, log_probs, advantages, response_mask)
    return policy_loss(ppo(settings), tokens, mode=loss_avg_mode, **more)
