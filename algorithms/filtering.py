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

    index, accuracy: [B]. Returns bool [B], equal within a group. It filters by accuracy, not by a shaped reward.
    Raises ValueError on a NaN or missing accuracy.
    """
    group, values = _labelled(index, accuracy, "accuracy")
    mean = np.bincount(group, weights=values) / np.bincount(group)
    return ((mean > low) & (mean < high))[group]


def varied_rows(index: Sequence[Any] | np.ndarray, reward: np.ndarray, tolerance: float = 1e-9) -> np.ndarray:
    """Rows of groups whose rewards differ: with a dense reward, all-wrong groups can be informative, too.

    index, reward: [B]. Returns bool [B], equal within a group. Raises ValueError on a NaN or missing reward.
    """
    group, values = _labelled(index, reward, "reward")
    lowest = np.full(group.max(initial=-1) + 1, np.inf)
    highest = -lowest
    np.minimum.at(lowest, group, values)
    np.maximum.at(highest, group, values)
    return (highest - lowest > tolerance)[group]


def _labelled(index: Sequence[Any] | np.ndarray, values: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Group numbers in order of appearance, from 0, and the values as float64: [B] each."""
    group, _ = group_numbers(index)
    labelled = np.asarray(values, dtype=np.float64)
    if np.isnan(labelled).any():
        raise ValueError(f"{what}: row {int(np.isnan(labelled).argmax())} has no value; leave unscored rows out first")
    return group, labelled
