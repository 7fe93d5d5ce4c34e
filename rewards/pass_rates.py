"""Weights of unit tests from how often they pass: in the group itself (VeRPO), or in the run so far (dense_weighted).

VeRPO (arXiv 2601.03525, eqs. 3 and 7-9) has no public code. Unlike in the paper, each turn has its own anchor and
group. Its hyper-parameters are settings without defaults. Not covered: the reward (rewards/shaping.py), its comparison
within the group (the estimators).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from algorithms.groups import group_numbers
from algorithms.settings import Strict
from algorithms.state import DeltaDict

# Rates are stored in ten-thousandths: at most five digits per test in a commit, and identical on every machine.
RESOLUTION = 10_000


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
    weights = []
    for group in range(len(labels)):
        rows = np.flatnonzero(numbers == group)
        outcomes = [passed[row] for row in rows if scored[row]] or [np.zeros(len(passed[rows[0]]))]
        weights.append(verpo_weights(np.mean(outcomes, axis=0), settings.alpha, settings.sigma, settings.delta))
    return [weights[group] for group in numbers]


def difficulty_weights(rates: ArrayLike, alpha: float) -> np.ndarray:
    """w_j = exp(−α·ρ_j)/Σ exp(−α·ρ): rarely passed tests weigh more, Σw = 1 (VeRPO's difficulty factor).

    rates: [T] in [0, 1]. With α = 0 all weights are equal. Returns float64 [T].
    """
    weights = np.exp(-alpha * np.asarray(rates, dtype=np.float64))
    return weights / weights.sum()


class RunningPassRates:
    """Pass rate of every test of every problem seen, as an exponential moving average over batches.

    ρ ← (1 − ema)·ρ + ema·(share of the problem's samples in the batch that pass the test); a problem's first batch sets
    its rates. `alpha` ≥ 0 is the sharpness of the weights (`difficulty_weights`); ema lies in (0, 1].
    """

    def __init__(self, alpha: float, ema: float) -> None:
        self.alpha = alpha
        self.ema = ema
        self._rates: DeltaDict[Any, np.ndarray] = DeltaDict()

    def update(self, problems: Sequence[Any] | np.ndarray, passed: Sequence[np.ndarray]) -> None:
        """Update from one batch: problem ids [B] (str or int), and B arrays bool [T].

        Leave out truncated and unscored rows: their failures say nothing about the tests.
        """
        numbers, names = group_numbers(problems)
        outcomes: list[list[np.ndarray]] = [[] for _ in names]
        for number, row in zip(numbers, passed, strict=True):
            outcomes[number].append(np.asarray(row, dtype=np.float64))
        for problem, rows in zip(names, outcomes, strict=True):
            shares = np.mean(rows, axis=0) * RESOLUTION
            before = self._rates.get(problem)
            mixed = shares if before is None else (1.0 - self.ema) * before + self.ema * shares
            self._rates[problem] = np.rint(mixed).astype(np.int64)

    def weights(self, problems: Sequence[Any] | np.ndarray, tests: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Weights of each row's tests, Σ = 1: problem ids [B] and numbers of tests [B] → B arrays float64 [T].

        The tests of an unseen problem weigh the same.
        """
        weights = []
        for problem, count in zip(problems, map(int, tests), strict=True):
            rates = self._rates.get(problem, np.zeros(count)) / RESOLUTION
            weights.append(difficulty_weights(rates, self.alpha))
        return weights

    def state_dict(self) -> dict[str, Any]:
        """State changed since `settle`, as JSON. Ids are list entries, so that integers stay integers."""
        return {
            "problems": list(self._rates.recent),
            "rates": [rates.tolist() for rates in self._rates.recent.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned as recent entries, beside those known before.

        Raises KeyError without them, and ValueError if their numbers differ.
        """
        pairs = zip(state["problems"], state["rates"], strict=True)
        self._rates.recent = {problem: np.array(rates, dtype=np.int64) for problem, rates in pairs}

    def follow(self, before: RunningPassRates) -> None:
        """Share, not copy, another's per-problem state; it must have no recent entries."""
        self._rates.follow(before._rates)

    def settle(self) -> None:
        """Mark recent entries as committed: they need not be written again."""
        self._rates.settle()
