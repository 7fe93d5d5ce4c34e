"""Group labels (prompt ids, uids) as consecutive numbers, for rows in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SECOND_TURN_SLOT = 1_000_000_000
"""Second turns of group s are the group s + SECOND_TURN_SLOT; sample k of it continues first turn k // children."""


def group_numbers(labels: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """Each row's group number, in order of appearance: int64 [B]; and each group's label: [G]."""
    number_of: dict[Any, int] = {}
    plain = labels.tolist() if isinstance(labels, np.ndarray) else labels
    numbers = (number_of.setdefault(label, len(number_of)) for label in plain)
    return np.fromiter(numbers, dtype=np.int64, count=len(plain)), list(number_of)
