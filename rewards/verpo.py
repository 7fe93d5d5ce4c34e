"""VeRPO: test weights from the group's own pass rates, and outcome anchors (arXiv 2601.03525, eqs. 3 and 7-14).

There is no public code; docs/rewards.md states how we read the paper. Its hyper-parameters are settings without
defaults. Not covered: normalising advantages by the group's standard deviation (the estimators do that).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

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
    groups: Sequence[Hashable] | np.ndarray,
    passed: Sequence[np.ndarray],
    scored: np.ndarray,
    settings: VerpoSettings,
) -> list[np.ndarray]:
    """Weights of each row's tests, from the pass rates of its group's scored rows.

    groups: [B], rows of one prompt share a label; passed: B arrays bool [T]; scored: bool [B]. Returns B arrays float64
    [T], the same object within a group; without scored rows, all pass rates are taken as 0. Raises ValueError if rows
    of a group differ in number of tests.
    """
    members: dict[Hashable, list[int]] = {}
    for row, label in enumerate(groups):
        members.setdefault(label, []).append(row)
    weights: list[np.ndarray] = [np.empty(0)] * len(passed)
    for label, rows in members.items():
        if len({len(passed[row]) for row in rows}) > 1:
            raise ValueError(f"group {label!r}: its rows differ in number of tests")
        outcomes = np.stack([passed[row] for row in rows])[np.asarray(scored)[rows]]
        rates = outcomes.mean(0) if len(outcomes) else np.zeros(len(passed[rows[0]]))
        of_group = verpo_weights(rates, settings.alpha, settings.sigma, settings.delta)
        for row in rows:
            weights[row] = of_group
    return weights


def verpo_turn_rewards(passed: ArrayLike, weights: ArrayLike) -> np.ndarray:
    """Dense reward of each turn, Σ_j w_j·1[test j passes]: [..., T] and [T] → float64 [...]."""
    return np.asarray(passed, dtype=np.float64) @ np.asarray(weights, dtype=np.float64)


def verpo_advantages(
    turn_rewards: Sequence[ArrayLike], solved: ArrayLike, gamma: float, beta: float
) -> list[np.ndarray]:
    """A = (R − mean R) + β·(r − mean r): a trajectory's outcome anchor plus the dense reward of a turn.

    turn_rewards: one array per trajectory of the group, one reward per turn; solved: bool per trajectory, all tests
    passed at its last turn. R = γ^turns·solved is averaged over trajectories, r over all turns of all trajectories.
    Returns one float64 array per trajectory. Raises ValueError on a trajectory without turns.
    """
    rewards = [np.asarray(turns, dtype=np.float64) for turns in turn_rewards]
    turns = np.array([len(reward) for reward in rewards])
    if (turns == 0).any():
        raise ValueError(f"trajectory {int((turns == 0).argmax())} has no turns")
    anchors = gamma**turns * np.asarray(solved, dtype=np.float64)
    mean_turn = np.concatenate(rewards).mean()
    return [
        (anchor - anchors.mean()) + beta * (reward - mean_turn) for anchor, reward in zip(anchors, rewards, strict=True)
    ]
