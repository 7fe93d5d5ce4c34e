"""Controllers of the KL coefficient, updated once per batch or, for KL in the loss, once per optimiser step.

Covered: fixed, adaptive (Ziegler), dual ascent per bucket (ARES), β per bucket (ARES code). All of a controller's state
is in its `state_dict`, so that a resume restores it. Not covered: the KL itself (algorithms/kl.py), the published
signatures (algorithms/published/kl.py), the table of names (ares/config/extensions.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, get_args

import numpy as np

from algorithms.buckets import BUCKETS
from algorithms.difficulty import check_buckets, per_bucket
from algorithms.kl import BatchKL, row_coefficients
from algorithms.settings import KLMode, KLSettings

ADAPTIVE_STEP_LIMIT = 0.2
DUAL_ASCENT_RATE = 0.01


class KLController(Protocol):
    """Adapts the KL coefficient to observed KL; constructed from its settings. docs/extending.md has an example."""

    def coefficients(self, difficulty: Sequence[str] | np.ndarray) -> np.ndarray:
        """The coefficient of each row, by its difficulty bucket [B]: float64 [B]."""

    def update(self, seen: BatchKL) -> None:
        """Adapt to the KL of a batch (of an optimiser step, for a controller inside the loss)."""

    def metrics(self) -> dict[str, float]:
        """Metrics to log after the batch."""

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state. Raises ValueError when it does not fit."""


class FixedKL:
    """A constant KL coefficient, always that of the settings, even after loading a state."""

    def __init__(self, init_kl_coef: float) -> None:
        self.kl_coef = _finite(init_kl_coef, "init_kl_coef")

    def coefficients(self, difficulty: Sequence[str] | np.ndarray) -> np.ndarray:
        """The same for every row."""
        return np.full(len(difficulty), self.kl_coef)

    def update(self, seen: BatchKL) -> None:
        """Nothing to adapt."""

    def metrics(self) -> dict[str, float]:
        return {"critic/kl_coef": self.kl_coef}

    def state_dict(self) -> dict[str, Any]:
        return {"kl_coef": self.kl_coef}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        _coefficient(state)


class AdaptiveKL(FixedKL):
    """One coefficient that follows a KL target (Ziegler et al., arXiv 1909.08593, §2.2).

    coef ← coef·(1 + clip(kl/target − 1, ±0.2)·n/horizon).
    """

    def __init__(self, init_kl_coef: float, target_kl: float, horizon: float) -> None:
        super().__init__(init_kl_coef)
        self.target = _positive(target_kl, "target_kl")
        self.horizon = _positive(horizon, "horizon")

    def update(self, seen: BatchKL) -> None:
        """Follow the batch's mean. Raises ValueError if it is not finite."""
        error = _finite(seen.mean, "current_kl") / self.target - 1.0
        error = min(max(error, -ADAPTIVE_STEP_LIMIT), ADAPTIVE_STEP_LIMIT)
        self.kl_coef *= 1.0 + error * seen.rows / self.horizon

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.kl_coef = _coefficient(state)


class DualAscentKL:
    """A KL coefficient per difficulty bucket by dual ascent (ARES): λ ← max(0, λ + 0.01·(kl − target)), λ₀ = 1.

    "compound": coef ← λ·coef, as published: a constant error compounds until the coefficient explodes, and λ = 0
    locks it at zero for good. "anchored": coef = λ·coef₀, which does neither. The first update is the same.
    Raises ValueError on a NaN or on an unknown or missing bucket.
    """

    def __init__(
        self,
        init_kl_coefs: float | Mapping[Any, float],
        target_kls: float | Mapping[Any, float],
        mode: KLMode = "anchored",
    ) -> None:
        if mode not in get_args(KLMode):
            raise ValueError(f"mode must be one of {get_args(KLMode)}, got {mode!r}")
        self.init_kl_coefs = per_bucket(init_kl_coefs, "init_kl_coefs")
        self.kl_coefs = dict(self.init_kl_coefs)
        self.target_kls = per_bucket(target_kls, "target_kls")
        self.lambdas = dict.fromkeys(BUCKETS, 1.0)
        self.mode = mode

    def coefficients(self, difficulty: Sequence[str] | np.ndarray) -> np.ndarray:
        """The coefficient of each row's bucket."""
        return row_coefficients(self.kl_coefs, difficulty)

    def update(self, seen: BatchKL) -> None:
        """Follow the mean of each bucket in the batch; other buckets keep their λ. Raises ValueError."""
        kls = _bucket_kls(seen)
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
        if self.mode == "anchored":  # only λ is state: the anchor comes from the settings, which a fork may change
            kl_coefs = {name: lambdas[name] * anchor for name, anchor in self.init_kl_coefs.items()}
        self.kl_coefs, self.lambdas = kl_coefs, lambdas


class BucketBeta:
    """β per difficulty bucket for the KL loss, adapted multiplicatively (ARES code, `dynamic_kl_loss`; nats).

    m ← (1−d)·kl + d·m (first: kl); e = m/target − 1; every `interval`-th update, for buckets in it and
    unless |e| < dead_zone: E ← (1−d)·e + d·E, ln β += lr·clip(E, ±clip), β kept in [beta_min, beta_max]. One update
    is one optimiser step, with bucket means over all ranks.
    """

    def __init__(
        self,
        target_kls: float | Mapping[Any, float] = 0.01,
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

    def coefficients(self, difficulty: Sequence[str] | np.ndarray) -> np.ndarray:
        """β of each row's bucket."""
        return row_coefficients(self.betas, difficulty)

    def update(self, seen: BatchKL) -> None:
        """Follow the mean of each bucket in this optimiser step. Raises ValueError."""
        kls = _bucket_kls(seen)
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


def fixed_kl(settings: KLSettings) -> FixedKL:
    """kind=fixed."""
    return FixedKL(_for_all_buckets(settings.coef, "coef"))


def adaptive_kl(settings: KLSettings) -> AdaptiveKL:
    """kind=adaptive."""
    coef, target = _for_all_buckets(settings.coef, "coef"), _for_all_buckets(settings.target, "target")
    return AdaptiveKL(coef, target, settings.horizon)


def dual_ascent_kl(settings: KLSettings) -> DualAscentKL:
    """kind=token_adaptive."""
    return DualAscentKL(settings.coef, settings.target, settings.mode)


def bucket_beta(settings: KLSettings) -> BucketBeta:
    """kind=bucket_beta."""
    return BucketBeta(target_kls=settings.target, interval=settings.beta_interval)


def _for_all_buckets(value: float | Mapping[Any, float], what: str) -> float:
    if isinstance(value, Mapping):
        raise ValueError(f"this KL controller has one {what} for all buckets, got {value}")
    return value


def _bucket_kls(seen: BatchKL) -> dict[str, float]:
    if unknown := [name for name in (*seen.buckets, *seen.bucket_rows) if name not in BUCKETS]:
        raise ValueError(f"unknown bucket {unknown[0]!r} (one of {', '.join(BUCKETS)})")
    return {name: _finite(kl, f"current_kls[{name!r}]") for name, kl in seen.buckets.items()}


def _finite(value: float, what: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{what} is {value}, which is not finite")
    return float(value)


def _positive(value: float, what: str) -> float:
    if not _finite(value, what) > 0:
        raise ValueError(f"{what} must be positive, got {value}")
    return float(value)


def _coefficient(state: Mapping[str, Any]) -> float:
    _check_keys(state, {"kl_coef"}, "KL controller state")
    return _finite(state["kl_coef"], "KL controller state: kl_coef")


def _check_keys(state: Mapping[str, Any], expected: set[str], what: str) -> None:
    if set(state) != expected:
        raise ValueError(f"{what} must have the keys {sorted(expected)}, got {sorted(state)}")


def _bucket_state(values: Mapping[str, float], what: str) -> dict[str, float]:
    check_buckets(values, what)
    return {name: _finite(values[name], f"{what}[{name!r}]") for name in BUCKETS}
