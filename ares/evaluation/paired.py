"""Differences of paired values: Student's t interval and test, the p of a bootstrap's draws.

Covered: values that come in pairs, one a problem (or one a seed, for ares/ablations). Not covered: where they come
from (ares/evaluation/comparison.py), several seeds crossed with problems (ares/ablations/statistics.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
LEVEL = 1 - CONFIDENCE
DRAWS = 10_000
"""Draws of a bootstrap."""
ROUNDING, RELATIVE = 1e-12, 1e-9
"""Numbers that differ by less, or by less as a share of the largest, differ by floating-point rounding alone."""


@dataclass(frozen=True)
class Estimate:
    """Mean of some values, with its t interval and its t test against 0; of one value the mean alone."""

    mean: float
    count: int
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    """Standard deviation of the values (n−1)."""
    p: float | None = None
    """Two-sided; 1 where all values are 0, None where they are all the same otherwise."""


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and t interval: mean ± t(.975, n−1) · s / √n, s the standard deviation of the values (n−1).

    Raises ValueError without values.
    """
    if not len(values):
        raise ValueError("no value to take the mean of")
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean, len(values))
    spread, freedom = spread_of(values), len(values) - 1
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, freedom)) * spread / math.sqrt(len(values))
    if spread == 0:
        p = 1.0 if abs(mean) <= ROUNDING else None
    else:
        p = float(2 * stats.t.sf(abs(mean) / spread * math.sqrt(len(values)), freedom))
    return Estimate(mean, len(values), mean - half, mean + half, spread, p)


def spread_of(values: Sequence[float]) -> float:
    """Standard deviation (n−1), 0 where the values differ by rounding alone: .8 − .75 is not quite .7 − .65.

    Taken at face value, that rounding would make any difference significant.
    """
    if np.ptp(values) <= max(ROUNDING, RELATIVE * float(np.max(np.abs(values)))):
        return 0.0
    return float(np.std(values, ddof=1))


def p_of_draws(drawn: np.ndarray) -> float:
    """Two-sided p: twice the share of draws on the other side of zero, never 0."""
    smaller = min(int((drawn <= ROUNDING).sum()), int((drawn >= -ROUNDING).sum()))
    return min(1.0, 2 * (smaller + 1) / (len(drawn) + 1))
