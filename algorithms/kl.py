"""KL divergence to the reference policy: estimators, batch statistics, the penalty, coefficients per token.

KL enters the reward (`penalized_rewards`) or the loss (`token_coefficients` and algorithms/losses.py), never both.
Controllers of its coefficient (algorithms/kl_controllers.py) follow the statistics of the whole batch, `BatchKL`. The
published form of the penalty is in algorithms/published/verl.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.advantages import MASK_EPS, masked
from algorithms.buckets import BUCKETS, bucket_index
from algorithms.settings import KLKind, KLSettings

LOG_RATIO_LIMIT = 20.0
K3_LIMIT = 10.0


def compute_kl(log_probs: Tensor, ref_log_probs: Tensor, kl_penalty: KLKind = "kl") -> Tensor:
    """Per-token estimate of KL(π ‖ π_ref) (nats), d = log π − log π_ref.

    "kl" d (k1); "abs" |d|; "mse" ½d² (k2); "low_var_kl" eˣ − x − 1 with x = clamp(−d, ±20), clamped to ±10 (k3);
    "full" Σ_v π(log π − log π_ref), the exact value (Schulman, "Approximating KL divergence").
    log_probs, ref_log_probs: [B, L] of the sampled tokens, or [..., V] for "full". Returns [B, L] (or [...]) float32.
    Raises ValueError for an unknown kind, differing shapes, or "full" without a vocabulary axis.
    """
    if kl_penalty not in get_args(KLKind):
        raise ValueError(f"unknown KL kind {kl_penalty!r} (one of {', '.join(get_args(KLKind))})")
    if log_probs.shape != ref_log_probs.shape:
        raise ValueError(f"log-probs are {tuple(log_probs.shape)}, the reference's {tuple(ref_log_probs.shape)}")
    log_probs, ref_log_probs = log_probs.float(), ref_log_probs.float()
    if kl_penalty == "full":
        if log_probs.ndim < 3:
            raise ValueError(f"KL kind 'full' needs [..., V] log-probs of the whole vocabulary, got {log_probs.ndim}-D")
        # A token banned by both policies (−inf) adds nothing, though its difference is NaN.
        banned = log_probs == -math.inf
        return (log_probs.exp() * (log_probs - ref_log_probs).masked_fill(banned, 0.0)).sum(-1)
    difference = log_probs - ref_log_probs
    if kl_penalty == "kl":
        return difference
    if kl_penalty == "abs":
        return difference.abs()
    if kl_penalty == "mse":
        return 0.5 * difference.square()
    x = (-difference).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return (x.exp() - x - 1.0).clamp(-K3_LIMIT, K3_LIMIT)


@dataclass(frozen=True)
class BatchKL:
    """A batch's KL to the reference (nats per token) over all ranks, as controllers see it."""

    mean: float
    """Mean over rows of the mean over each row's response tokens."""
    rows: int
    buckets: Mapping[str, float]
    """The same mean per difficulty bucket, for buckets in the batch."""

    @classmethod
    def of(cls, row_kl: Tensor, difficulty: Sequence[str] | np.ndarray) -> BatchKL:
        """From the mean KL of each row [B] and its bucket [B]."""
        codes = bucket_index(difficulty)
        sums = np.bincount(codes, weights=row_kl.detach().double().cpu().numpy(), minlength=len(BUCKETS))
        rows = np.bincount(codes, minlength=len(BUCKETS))
        means = {BUCKETS[code]: float(sums[code] / rows[code]) for code in np.flatnonzero(rows)}
        return cls(float(row_kl.mean()), len(row_kl), means)

    def metrics(self, coefficients: np.ndarray) -> dict[str, float]:
        """critic/kl and bucket/BUCKET/kl (nats), and critic/kl_coef: the mean coefficient [B] applied to it."""
        told = {"critic/kl": self.mean, "critic/kl_coef": float(coefficients.mean())}
        return told | {f"bucket/{name}/kl": value for name, value in self.buckets.items()}


def masked_kl(kl: Tensor, response_mask: Tensor) -> tuple[Tensor, Tensor]:
    """KL of response tokens, zero elsewhere: [B, L]; and each row's mean: [B]. Masked-out entries may hold anything."""
    kl = masked(kl, response_mask)
    return kl, kl.sum(-1) / (response_mask.sum(-1) + MASK_EPS)


def penalized_rewards(scores: Tensor, coefficients: np.ndarray, kl: Tensor) -> Tensor:
    """KL as a penalty in the reward (Ziegler et al., arXiv 1909.08593, eq. 2): score − coef·KL, [B, L].

    scores [B, L]; coefficients [B], one per row; kl [B, L], zero outside the response.
    """
    return scores - torch.as_tensor(coefficients, dtype=scores.dtype, device=kl.device)[:, None] * kl


def second_chance(
    coefficients: np.ndarray, difficulty: Sequence[str] | np.ndarray, accuracy: np.ndarray, factor: float
) -> np.ndarray:
    """Weaken KL for wrong answers to easy prompts: their coefficient times `factor` (ours, after ARES).

    The policy solves an easy prompt at least two times in three. A wrong sample is a path to leave, and the reference
    may be what keeps the policy on it. coefficients, accuracy: [B]; factor in [0, 1], 1 is off.
    """
    wrong_easy = (bucket_index(difficulty) == BUCKETS.index("easy")) & (np.asarray(accuracy, dtype=np.float64) < 1.0)
    return np.where(wrong_easy, factor * coefficients, coefficients)


def token_coefficients(
    coefficients: np.ndarray | Tensor, hwe_mask: Tensor, settings: KLSettings, window: int
) -> Tensor:
    """KL coefficient of each token, β_t = ρ·β_d where the policy should explore, β_d elsewhere (ARES, dynamic KL).

    settings.relax_scope "token": at HWE tokens. "window": at the `window` tokens after one, whose entropy made it an
    HWE token; overlapping windows relax once. coefficients: [B]; hwe_mask: bool [B, L]. Returns [B, L] float32.
    """
    relaxed = hwe_mask.bool()
    if settings.relax_scope == "window":
        # Position t is relaxed iff an HWE token lies in t−w … t−1.
        shifted = F.pad(relaxed.float(), (window, 0))[:, None, :-1]
        relaxed = F.max_pool1d(shifted, window, stride=1)[:, 0] > 0
    rows = torch.as_tensor(coefficients, dtype=torch.float32, device=hwe_mask.device)[:, None]
    return torch.where(relaxed, settings.relax_hwe * rows, rows)
