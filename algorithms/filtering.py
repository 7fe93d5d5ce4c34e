"""Which rollouts are worth a gradient: those of informative groups (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.groups import group_numbers


def informative_rows(
    index: Sequence[Any] | np.ndarray, accuracy: np.ndarray, low: float = 0.01, high: float = 0.99
) -> np.ndarray:
    """Rows of the groups with low < mean accuracy < high, both strict (DAPO, §3.2: neither all right nor all wrong).

    index, accuracy: [B], without NaN. Returns bool [B], equal within a group. It filters by accuracy, not by a shaped
    reward.
    """
    group, _ = group_numbers(index)
    mean = np.bincount(group, weights=accuracy) / np.bincount(group)
    return ((mean > low) & (mean < high))[group]


def varied_rows(index: Sequence[Any] | np.ndarray, reward: np.ndarray, tolerance: float = 1e-9) -> np.ndarray:
    """Rows of groups whose rewards differ: with a dense reward, all-wrong groups can be informative, too.

    index, reward: [B], without NaN. Returns bool [B], equal within a group.
    """
    group, _ = group_numbers(index)
    lowest = np.full(group.max(initial=-1) + 1, np.inf)
    highest = -lowest
    np.minimum.at(lowest, group, reward)
    np.maximum.at(highest, group, reward)
    return (highest - lowest > tolerance)[group]
