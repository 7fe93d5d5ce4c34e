"""Execution feedback on a failed program for a second turn, and credit to the first turn (Murphy, arXiv 2511.07833).

Not covered: the prompt of the second turn (ares/step/second_turn.py).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

Credit = Literal["max", "mean"]
LONGEST_TEST = 200
"""Characters of a failing test that are shown."""


def execution_feedback(tests: Sequence[str], outcomes: Sequence[str]) -> str:
    """How many tests passed, and the first failure with its error type.

    tests: their source; outcomes: one of sandbox.ERROR_TYPES each. Raises ValueError if none failed.
    """
    failing = next((place for place, outcome in enumerate(outcomes) if outcome != "accepted"), None)
    if failing is None:
        raise ValueError("all tests passed: there is no failure to report")
    passed = sum(outcome == "accepted" for outcome in outcomes)
    ending = outcomes[failing].replace("_", " ")
    return f"{passed} of {len(outcomes)} tests passed. {ending}: {tests[failing]:.{LONGEST_TEST}}"


def first_turn_credit(
    own: np.ndarray, parent: np.ndarray, second: np.ndarray, credit: Credit, share: float = 1.0
) -> np.ndarray:
    """Reward that each first turn gains from its second turns: share·max(0, c − own), c their maximum or mean reward.

    With share 1 a repaired failure is worth as much as a program that was right at once.

    own: [B] rewards of first turns (NaN: none); parent: int [C], the first turn of each second turn; second: [C] their
    rewards (NaN: none, ignored). Returns float64 [B], 0 for first turns without a second turn or a reward of their own.
    """
    gained = np.zeros(len(own))
    counted = ~np.isnan(second)
    parent, second = parent[counted], second[counted]
    if credit == "max":
        best = np.full(len(own), -np.inf)
        np.maximum.at(best, parent, second)
    else:
        totals, counts = np.bincount(parent, second, len(own)), np.bincount(parent, minlength=len(own))
        best = np.where(counts > 0, totals / np.maximum(counts, 1), -np.inf)
    has = ~np.isnan(own) & np.isfinite(best)
    gained[has] = share * np.maximum(best[has] - own[has], 0.0)
    return gained
