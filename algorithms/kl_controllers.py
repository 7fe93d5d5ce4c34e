"""Controllers of the KL coefficient, updated once per batch or, for KL in the loss, once per optimiser step.

Covered: fixed, adaptive (Ziegler), dual ascent per bucket (ARES), β per bucket (ARES code); each is made from the
section algorithm.kl and keeps all of its state in `state_dict`, so that a resume restores it. Not covered: the KL
itself (algorithms/kl.py), the published signatures (algorithms/published/verl.py), the table of names
(ares/config/extensions.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from algorithms.buckets import BUCKETS, of_rows, per_bucket
from algorithms.kl import BatchKL
from algorithms.settings import ADAPTIVE_STEP_LIMIT, KLSettings
from algorithms.state import check_state

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

    def __init__(self, settings: KLSettings) -> None:
        """Raises ValueError for a coefficient per bucket."""
        self.kl_coef = _one_for_all(settings, "coef")

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
        check_state(state, self.state_dict(), "KL state")


class AdaptiveKL(FixedKL):
    """One coefficient that follows a KL target (Ziegler et al., arXiv 1909.08593, §2.2).

    coef ← coef·(1 + clip(kl/target − 1, ±0.2)·n/horizon).
    """

    def __init__(self, settings: KLSettings) -> None:
        super().__init__(settings)
        self.target, self.horizon = _one_for_all(settings, "target"), settings.horizon

    def update(self, seen: BatchKL) -> None:
        """Follow the batch's mean. Raises ValueError if it is not finite."""
        if not math.isfinite(seen.mean):
            raise ValueError(f"the batch's KL is {seen.mean}")
        error = min(max(seen.mean / self.target - 1.0, -ADAPTIVE_STEP_LIMIT), ADAPTIVE_STEP_LIMIT)
        self.kl_coef *= 1.0 + error * seen.rows / self.horizon

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.kl_coef = state["kl_coef"]


class DualAscentKL:
    """A KL coefficient per difficulty bucket by dual ascent (ARES): λ ← max(0, λ + 0.01·(kl − target)), λ₀ = 1.

    mode "compound": coef ← λ·coef, as published: a constant error compounds until the coefficient explodes, and λ = 0
    locks it at zero for good. "anchored": coef = λ·coef₀, which does neither. The first update is the same.
    """

    def __init__(self, settings: KLSettings) -> None:
        self.init_kl_coefs, self.target_kls = per_bucket(settings.coef), per_bucket(settings.target)
        self.kl_coefs = dict(self.init_kl_coefs)
        self.lambdas = dict.fromkeys(BUCKETS, 1.0)
        self.mode = settings.mode

    def coefficients(self, difficulty: Sequence[str] | np.ndarray) -> np.ndarray:
        """The coefficient of each row's bucket."""
        return of_rows(self.kl_coefs, difficulty)

    def update(self, seen: BatchKL) -> None:
        """Follow the mean of each bucket in the batch; other buckets keep their λ. Raises ValueError."""
        for name, kl in _checked_means(seen).items():
            self.lambdas[name] = max(0.0, self.lambdas[name] + DUAL_ASCENT_RATE * (kl - self.target_kls[name]))
            anchor = self.kl_coefs[name] if self.mode == "compound" else self.init_kl_coefs[name]
            self.kl_coefs[name] = self.lambdas[name] * anchor

    def metrics(self) -> dict[str, float]:
        values = {f"bucket/{name}/lambda": value for name, value in self.lambdas.items()}
        return values | {f"bucket/{name}/beta": value for name, value in self.kl_coefs.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"kl_coefs": dict(self.kl_coefs), "lambdas": dict(self.lambdas)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict(), "KL state")
        self.kl_coefs, self.lambdas = dict(state["kl_coefs"]), dict(state["lambdas"])
        if self.mode == "anchored":  # only λ is state: the anchor comes from the settings, which a fork may change
            self.kl_coefs = {name: self.lambdas[name] * anchor for name, anchor in self.init_kl_coefs.items()}


class BucketBeta:
    """β per difficulty bucket for the KL loss, adapted multiplicatively (ARES code, `dynamic_kl_loss`; nats).

    m ← (1−d)·kl + d·m (first: kl); e = m/target − 1; every `interval`-th update, for buckets in it and
    unless |e| < dead_zone: E ← (1−d)·e + d·E, ln β += lr·clip(E, ±clip), β kept in [beta_min, beta_max], β₀ = 1. One
    update is one optimiser step, with bucket means over all ranks. β multiplies the fixed coefficient.
    """

    beta_min, beta_max = 1e-4, 1e2
    ema_decay, beta_lr, clip, dead_zone = 0.97, 0.05, 0.2, 0.02

    def __init__(self, settings: KLSettings) -> None:
        self.target_kls, self.interval = per_bucket(settings.target), settings.beta_interval
        self.betas = dict.fromkeys(BUCKETS, 1.0)
        self._kl_ema: dict[str, float] = {}
        self._error_ema = dict.fromkeys(BUCKETS, 0.0)
        self._updates = 0

    def coefficients(self, difficulty: Sequence[str] | np.ndarray) -> np.ndarray:
        """β of each row's bucket."""
        return of_rows(self.betas, difficulty)

    def update(self, seen: BatchKL) -> None:
        """Follow the mean of each bucket in this optimiser step. Raises ValueError."""
        means, keep = _checked_means(seen), self.ema_decay
        self._updates += 1
        for name, kl in means.items():
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
        averages = {"kl_ema": dict(self._kl_ema), "error_ema": dict(self._error_ema)}
        return {"betas": dict(self.betas), **averages, "updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        check_state(state, self.state_dict(), "KL state")
        self.betas, self._updates = dict(state["betas"]), state["updates"]
        self._kl_ema, self._error_ema = dict(state["kl_ema"]), dict(state["error_ema"])


def _one_for_all(settings: KLSettings, name: str) -> float:
    value = getattr(settings, name)
    if isinstance(value, Mapping):
        raise ValueError(f"a KL controller of kind {settings.kind} has one {name} for all buckets, got {value}")
    return float(value)


def _checked_means(seen: BatchKL) -> Mapping[str, float]:
    for name, kl in seen.buckets.items():
        if name not in BUCKETS or not math.isfinite(kl):
            raise ValueError(f"the KL of bucket {name!r} is {kl} (buckets: {', '.join(BUCKETS)})")
    return seen.buckets
