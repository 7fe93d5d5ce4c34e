"""KL divergence to the reference policy: estimators, penalties and the controllers of its coefficient.

The KL acts in the reward (`apply_kl_penalty`) or in the loss (`token_coefficients` and algorithms/losses.py), never in
both. Every controller is driven by statistics of the whole batch, reduced over ranks first (`bucket_totals`), and keeps
nothing that its `state_dict` does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.difficulty import BUCKETS, bucket_index, check_buckets, per_bucket
from algorithms.protocol import DataProto

KLKind = Literal["kl", "abs", "mse", "low_var_kl", "full"]
KLMode = Literal["compound", "anchored"]
RelaxScope = Literal["token", "window"]

LOG_RATIO_LIMIT = 20.0
K3_LIMIT = 10.0
ADAPTIVE_STEP_LIMIT = 0.2
DUAL_ASCENT_RATE = 0.01


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
        # −inf on both sides is a banned token: it weighs nothing, though its difference is NaN.
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


class FixedKLController:
    """A KL coefficient that never changes."""

    def __init__(self, init_kl_coef: float) -> None:
        self.kl_coef = _finite(init_kl_coef, "init_kl_coef")

    def update(self, current_kl: float, n_steps: int) -> None:
        """Nothing to adapt."""

    def metrics(self) -> dict[str, float]:
        return {"critic/kl_coef": self.kl_coef}

    def state_dict(self) -> dict[str, Any]:
        return {"kl_coef": self.kl_coef}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        _check_keys(state, {"kl_coef"}, "KL controller state")
        self.kl_coef = _finite(state["kl_coef"], "KL controller state: kl_coef")


class AdaptiveKLController(FixedKLController):
    """One coefficient that follows a KL target (Ziegler et al., arXiv 1909.08593, §2.2).

    coef ← coef·(1 + clip(kl/target − 1, ±0.2)·n/horizon).
    """

    def __init__(self, init_kl_coef: float, target_kl: float, horizon: float) -> None:
        super().__init__(init_kl_coef)
        self.target = _positive(target_kl, "target_kl")
        self.horizon = _positive(horizon, "horizon")

    def update(self, current_kl: float, n_steps: int) -> None:
        """current_kl in nats, n_steps sequences. Raises ValueError if current_kl is not finite."""
        error = _finite(current_kl, "current_kl") / self.target - 1.0
        error = min(max(error, -ADAPTIVE_STEP_LIMIT), ADAPTIVE_STEP_LIMIT)
        self.kl_coef *= 1.0 + error * n_steps / self.horizon


class TokenLevelAdaptiveKLController:
    """A KL coefficient per difficulty bucket by dual ascent (ARES): λ ← max(0, λ + 0.01·(kl − target)), λ₀ = 1.

    "compound": coef ← λ·coef, as published: a constant error compounds until the coefficient explodes, and λ = 0
    locks it at zero for good. "anchored": coef = λ·coef₀, which does neither. The first update is the same.
    Raises ValueError on a NaN or on an unknown or missing bucket.
    """

    def __init__(
        self,
        init_kl_coefs: float | Mapping[str, float],
        target_kls: float | Mapping[str, float],
        horizon: float = 10000.0,
        mode: KLMode = "compound",
    ) -> None:
        if mode not in get_args(KLMode):
            raise ValueError(f"mode must be one of {get_args(KLMode)}, got {mode!r}")
        self.init_kl_coefs = per_bucket(init_kl_coefs, "init_kl_coefs")
        self.kl_coefs = dict(self.init_kl_coefs)
        self.target_kls = per_bucket(target_kls, "target_kls")
        self.lambdas = dict.fromkeys(BUCKETS, 1.0)
        # The published signature has a horizon; dual ascent does not use it.
        self.horizon = horizon
        self.mode = mode

    def update(self, current_kls: Mapping[str, float], n_steps: Mapping[str, int]) -> None:
        """Mean KL (nats) of each bucket the batch shows; other buckets keep their λ. n_steps: sequences per bucket."""
        if unknown := [name for name in (*current_kls, *n_steps) if name not in BUCKETS]:
            raise ValueError(f"unknown bucket {unknown[0]!r} (one of {', '.join(BUCKETS)})")
        kls = {name: _finite(kl, f"current_kls[{name!r}]") for name, kl in current_kls.items()}
        for name, kl in kls.items():
            self.lambdas[name] = max(0.0, self.lambdas[name] + DUAL_ASCENT_RATE * (kl - self.target_kls[name]))
            anchor = self.kl_coefs[name] if self.mode == "compound" else self.init_kl_coefs[name]
            self.kl_coefs[name] = self.lambdas[name] * anchor

    def metrics(self) -> dict[str, float]:
        values = {f"bucket/{name}/lambda": value for name, value in self.lambdas.items()}
        return values | {f"bucket/{name}/beta": value for name, value in self.kl_coefs.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"kl_coefs": dict(self.kl_coefs), "lambdas": dict(self.lambdas)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        _check_keys(state, {"kl_coefs", "lambdas"}, "token-level KL state")
        kl_coefs, lambdas = (
            _bucket_state(state[key], f"token-level KL state: {key}") for key in ("kl_coefs", "lambdas")
        )
        self.kl_coefs, self.lambdas = kl_coefs, lambdas


KLController = FixedKLController | AdaptiveKLController | TokenLevelAdaptiveKLController


class KLSettings(Protocol):
    """What `get_kl_controller` reads; a setting that the chosen type does not need is not touched."""

    kl_type: str
    kl_coef: float | Mapping[str, float]
    kl_target: float | Mapping[str, float]
    kl_horizon: float
    kl_mode: KLMode


def get_kl_controller(config: KLSettings) -> KLController:
    """The controller that `config.kl_type` names: "fixed", "adaptive" or "token_adaptive". Raises ValueError otherwise.

    "token_adaptive" takes kl_coef and kl_target as one number for all buckets or as one per bucket.
    """
    if config.kl_type == "token_adaptive":
        return TokenLevelAdaptiveKLController(config.kl_coef, config.kl_target, config.kl_horizon, config.kl_mode)
    if config.kl_type not in ("fixed", "adaptive"):
        raise ValueError(f"unknown KL controller {config.kl_type!r} (one of fixed, adaptive, token_adaptive)")
    if isinstance(config.kl_coef, Mapping):
        raise ValueError(
            f"KL controller {config.kl_type!r} has one coefficient; kl_coef per bucket needs token_adaptive"
        )
    if config.kl_type == "fixed":
        return FixedKLController(config.kl_coef)
    if isinstance(config.kl_target, Mapping):
        raise ValueError("KL controller 'adaptive' has one target; kl_target per bucket needs token_adaptive")
    return AdaptiveKLController(config.kl_coef, config.kl_target, config.kl_horizon)


class BucketBeta:
    """β per difficulty bucket for the KL loss, adapted multiplicatively (ARES code, `dynamic_kl_loss`; nats).

    m ← (1−d)·kl + d·m (first: kl); e = m/target − 1; every `interval`-th update, for the buckets it shows and
    unless |e| < dead_zone: E ← (1−d)·e + d·E, ln β += lr·clip(E, ±clip), β kept in [beta_min, beta_max]. One update
    is one optimiser step, with bucket means over all ranks.
    """

    def __init__(
        self,
        target_kls: float | Mapping[str, float] = 0.01,
        beta_init: float = 1.0,
        beta_min: float = 1e-4,
        beta_max: float = 1e2,
        ema_decay: float = 0.97,
        beta_lr: float = 0.05,
        clip: float = 0.2,
        interval: int = 100,
        dead_zone: float = 0.02,
    ) -> None:
        if interval < 1:
            raise ValueError(f"interval must be at least 1, got {interval}")
        if not 0.0 <= ema_decay < 1.0:
            raise ValueError(f"ema_decay must lie in [0, 1), got {ema_decay}")
        if not 0.0 < beta_min <= beta_init <= beta_max:
            raise ValueError(f"need 0 < beta_min ≤ beta_init ≤ beta_max, got {beta_min}, {beta_init}, {beta_max}")
        self.target_kls = {name: _positive(t, "target_kls") for name, t in per_bucket(target_kls, "target_kls").items()}
        self.beta_min, self.beta_max = beta_min, beta_max
        self.ema_decay, self.beta_lr, self.clip = ema_decay, beta_lr, clip
        self.interval, self.dead_zone = interval, dead_zone
        self.betas = dict.fromkeys(BUCKETS, float(beta_init))
        self._kl_ema: dict[str, float] = {}
        self._error_ema = dict.fromkeys(BUCKETS, 0.0)
        self._updates = 0

    def update(self, current_kls: Mapping[str, float]) -> None:
        """Mean KL (nats) of each bucket this optimiser step showed. Raises ValueError on a NaN or an unknown bucket."""
        if unknown := [name for name in current_kls if name not in BUCKETS]:
            raise ValueError(f"unknown bucket {unknown[0]!r} (one of {', '.join(BUCKETS)})")
        kls = {name: _finite(kl, f"current_kls[{name!r}]") for name, kl in current_kls.items()}
        self._updates += 1
        keep = self.ema_decay
        for name, kl in kls.items():
            self._kl_ema[name] = (1.0 - keep) * kl + keep * self._kl_ema.get(name, kl)
            error = self._kl_ema[name] / self.target_kls[name] - 1.0
            if self._updates % self.interval or abs(error) < self.dead_zone:
                continue
            self._error_ema[name] = (1.0 - keep) * error + keep * self._error_ema[name]
            step = self.beta_lr * min(max(self._error_ema[name], -self.clip), self.clip)
            self.betas[name] = min(max(self.betas[name] * math.exp(step), self.beta_min), self.beta_max)

    def metrics(self) -> dict[str, float]:
        values = {f"bucket/{name}/beta": beta for name, beta in self.betas.items()}
        return values | {f"bucket/{name}/kl_ema": kl for name, kl in self._kl_ema.items()}

    def state_dict(self) -> dict[str, Any]:
        return {
            "betas": dict(self.betas),
            "kl_ema": dict(self._kl_ema),
            "error_ema": dict(self._error_ema),
            "updates": self._updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        _check_keys(state, {"betas", "kl_ema", "error_ema", "updates"}, "bucket β state")
        betas, errors = (_bucket_state(state[key], f"bucket β state: {key}") for key in ("betas", "error_ema"))
        if unknown := [name for name in state["kl_ema"] if name not in BUCKETS]:
            raise ValueError(f"bucket β state: unknown bucket {unknown[0]!r} in kl_ema")
        kl_ema = {name: _finite(kl, f"bucket β state: kl_ema[{name!r}]") for name, kl in state["kl_ema"].items()}
        self.betas, self._error_ema, self._kl_ema, self._updates = betas, errors, kl_ema, int(state["updates"])


def bucket_totals(difficulty: Sequence[str] | np.ndarray, values: Tensor | np.ndarray) -> np.ndarray:
    """Sum and count of `values` [B] per bucket: float64 [2, 3], to be added over ranks before `bucket_means`."""
    codes = bucket_index(difficulty)
    numbers = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    sums = np.bincount(codes, weights=numbers.astype(np.float64), minlength=len(BUCKETS))
    return np.stack([sums, np.bincount(codes, minlength=len(BUCKETS)).astype(np.float64)])


def bucket_means(totals: np.ndarray) -> dict[str, float]:
    """Mean of each bucket that has rows, from `bucket_totals`."""
    return {name: float(total / count) for name, total, count in zip(BUCKETS, *totals, strict=True) if count > 0}


def row_coefficients(coefs: Mapping[str, float], difficulty: Sequence[str] | np.ndarray) -> np.ndarray:
    """The coefficient of each row's bucket: float64 [B]. Raises ValueError on an unknown or missing bucket."""
    check_buckets(coefs, "coefficients")
    return np.array([coefs[name] for name in BUCKETS])[bucket_index(difficulty)]


def second_chance(
    coefficients: np.ndarray, difficulty: Sequence[str] | np.ndarray, accuracy: np.ndarray, factor: float
) -> np.ndarray:
    """Loosen the KL of wrong answers to easy prompts: their coefficient times `factor` (ours, after ARES).

    The policy solves an easy prompt at least two times in three, so a wrong sample there is a path to be left, and the
    reference, which may be what holds it there, gets less say. coefficients, accuracy: [B]; factor in [0, 1], 1 is off.
    """
    if not 0.0 <= factor <= 1.0:
        raise ValueError(f"the second-chance factor must lie in [0, 1], got {factor}")
    wrong_easy = (bucket_index(difficulty) == BUCKETS.index("easy")) & (np.asarray(accuracy, dtype=np.float64) < 1.0)
    return np.where(wrong_easy, factor * coefficients, coefficients)


def token_coefficients(
    coefficients: np.ndarray | Tensor,
    hwe_mask: Tensor,
    relaxation: float = 0.5,
    relax_scope: RelaxScope = "token",
    window: int = 4,
) -> Tensor:
    """KL coefficient of each token, β_t = ρ·β_d where the policy is meant to explore, β_d elsewhere (ARES, dynamic KL).

    relax_scope "token": at HWE tokens. "window": at the `window` tokens that follow one, those whose entropy made it
    an HWE token; overlapping windows relax once. coefficients: [B]; hwe_mask: bool [B, L]. Returns [B, L] float32.
    """
    if relax_scope not in get_args(RelaxScope):
        raise ValueError(f"relax_scope must be one of {get_args(RelaxScope)}, got {relax_scope!r}")
    if not 0.0 <= relaxation <= 1.0:
        raise ValueError(f"relaxation must lie in [0, 1], got {relaxation}")
    relaxed = hwe_mask.bool()
    if relax_scope == "window":
        # Position t is relaxed iff an HWE token lies in t−w … t−1.
        shifted = F.pad(relaxed.float(), (window, 0))[:, None, :-1]
        relaxed = F.max_pool1d(shifted, window, stride=1)[:, 0] > 0
    rows = torch.as_tensor(coefficients, dtype=torch.float32, device=hwe_mask.device)[:, None]
    return torch.where(relaxed, relaxation * rows, rows)


def apply_kl_penalty(
    data: DataProto, kl_ctrl: KLController, kl_penalty: KLKind = "kl"
) -> tuple[DataProto, dict[str, float]]:
    """KL as a penalty in the reward (Ziegler et al., arXiv 1909.08593, eq. 2); then the controller updates.

    token_level_rewards = token_level_scores − coef·KL(old ‖ ref)·mask; the KL reported and fed back is the mean over
    rows of each row's mean. With a token-level controller the coefficient is that of the row's `difficulty` and the
    update takes bucket means.
    Needs token_level_scores, old_log_probs, ref_log_probs, response_mask [B, L]; "full" reads old_vocab_log_probs and
    ref_vocab_log_probs [B, L, V] instead of the two log-prob fields.
    Returns the same `data` with token_level_rewards written, and metrics (nats): critic/kl, critic/kl_coef as it was
    for this batch, and `bucket/<bucket>/{kl,beta,lambda}`.
    """
    scores, mask = data.tensor("token_level_scores"), data.tensor("response_mask")
    mask = mask.to(scores.dtype)
    kind = "vocab_log_probs" if kl_penalty == "full" else "log_probs"
    kl = compute_kl(data.tensor(f"old_{kind}"), data.tensor(f"ref_{kind}"), kl_penalty)
    # Padding may hold anything: select, since NaN times zero is NaN.
    kl = torch.where(mask > 0, kl * mask, 0.0)
    row_kl = kl.sum(-1) / (mask.sum(-1) + 1e-8)
    current_kl = float(row_kl.mean())
    if isinstance(kl_ctrl, TokenLevelAdaptiveKLController):
        (difficulty,) = data.require("difficulty")
        coefs = row_coefficients(kl_ctrl.kl_coefs, difficulty)
        data.batch["token_level_rewards"] = (
            scores - torch.as_tensor(coefs, dtype=scores.dtype, device=kl.device)[:, None] * kl
        )
        totals = bucket_totals(difficulty, row_kl)
        means = bucket_means(totals)
        metrics = {"critic/kl": current_kl, "critic/kl_coef": float(coefs.mean())} | kl_ctrl.metrics()
        metrics |= {f"bucket/{name}/kl": value for name, value in means.items()}
        kl_ctrl.update(means, {name: int(count) for name, count in zip(BUCKETS, totals[1], strict=True) if count})
        return data, metrics
    data.batch["token_level_rewards"] = scores - kl_ctrl.kl_coef * kl
    metrics = {"critic/kl": current_kl, "critic/kl_coef": kl_ctrl.kl_coef}
    kl_ctrl.update(current_kl=current_kl, n_steps=len(data))
    return data, metrics


def _finite(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value}, which is not finite")
    return float(value)


def _positive(value: float, what: str) -> float:
    if not _finite(value, what) > 0:
        raise ValueError(f"{what} must be positive, got {value}")
    return float(value)


def _check_keys(state: Mapping[str, Any], expected: set[str], what: str) -> None:
    if set(state) != expected:
        raise ValueError(f"{what} must have the keys {sorted(expected)}, got {sorted(state)}")


def _bucket_state(values: Mapping[str, float], what: str) -> dict[str, float]:
    check_buckets(values, what)
    return {name: _finite(values[name], f"{what}[{name!r}]") for name in BUCKETS}
