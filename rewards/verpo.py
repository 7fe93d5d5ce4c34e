"""VeRPO: weights of tests from the group's own pass rates (arXiv 2601.03525, eqs. 3 and 7-9).

There is no public code. Unlike in the paper, each turn has its own anchor and group. The hyper-parameters are settings
without defaults. Not covered: the reward (rewards/shaping.py), its comparison within the group (the estimators).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from algorithms.groups import group_numbers
from algorithms.settings import Strict


class VerpoSettings(Strict):
    """Hyper-parameters of VeRPO; the paper names no defaults."""

    alpha: float = Field(ge=0)
    """How much more a hard test weighs than an easy one."""
    sigma: float = Field(gt=0)
    """Pass rates this close count as one cluster, whose tests share their weight."""
    delta: float = Field(gt=0)
    """Added to a cluster's density."""
    gamma: float = Field(ge=0, le=1)
    """Outcome anchor: added when all tests pass."""
    beta: float = Field(ge=0)
    """Weight of the dense part beside the outcome anchor."""


def cluster_density(rates: ArrayLike, sigma: float) -> np.ndarray:
    """N̂_j = Σ_j' exp(−(ρ_j − ρ_j')²/2σ²), a soft count of tests with a pass rate like test j's: [T] → float64 [T]."""
    rho = np.asarray(rates, dtype=np.float64)
    return np.exp(-((rho[:, None] - rho[None, :]) ** 2) / (2 * sigma**2)).sum(1)


def verpo_weights(rates: ArrayLike, alpha: float, sigma: float, delta: float) -> np.ndarray:
    """w_j = exp(−α·ρ_j)/(N̂_j + δ): rarely passed tests weigh more, near-duplicates share their weight.

    rates: [T], pass rate ρ_j of each test in [0, 1]. Returns float64 [T]; the weights do not sum to 1.
    """
    rho = np.asarray(rates, dtype=np.float64)
    return np.exp(-alpha * rho) / (cluster_density(rho, sigma) + delta)


def verpo_group_weights(
    groups: Sequence[Hashable], passed: Sequence[np.ndarray], scored: np.ndarray, settings: VerpoSettings
) -> list[np.ndarray]:
    """Weights of each row's tests, from the pass rates of its group's scored rows.

    groups: [B], rows of one prompt share a label; passed: B arrays bool [T]; scored: bool [B]. Returns B arrays float64
    [T], the same object within a group; without scored rows, all pass rates are taken as 0.
    """
    numbers, labels = group_numbers(groups)
    weights: list[np.ndarray] = [np.empty(0)] * len(passed)
    for group in range(len(labels)):
        rows = np.flatnonzero(numbers == group)
        outcomes = [passed[row] for row in rows if scored[row]] or [np.zeros(len(passed[rows[0]]))]
        of_group = verpo_weights(np.mean(outcomes, axis=0), settings.alpha, settings.sigma, settings.delta)
        for row in rows:
            weights[row] = of_group
    return weights
