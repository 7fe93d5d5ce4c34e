"""What a grader is: rows in, accuracy and whatever else it knows of each row out.

A sample that cannot be graded has no score (None), never zero. Not covered: what accuracy turns into (ares/step).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pandas as pd

from ares.errors import UserError
from rewards.aepo import format_reward

Scorer = Callable[[pd.DataFrame], list[float | None]]
ID_COLUMNS = ["id", "slot", "sample"]


class RewardError(UserError, RuntimeError):
    """A reward function raised, or returned something that is no list of scores."""


class Grader(ABC):
    """What grades responses. Rows have the columns of their problems, and id, slot, sample and response."""

    def start(self) -> None:  # noqa: B027 (most graders need nothing)
        """Start what it needs besides this process; before that nothing runs and nothing is rented."""

    def anticipate(self, rows: pd.DataFrame) -> None:  # noqa: B027 (most grade a shard at once)
        """Begin with responses that have finished while others are generated."""

    @abstractmethod
    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """id, slot, sample, accuracy (null: no score), format, and whatever else the grader knows of each row."""

    def forget(self) -> None:  # noqa: B027 (most keep nothing)
        """Drop what was kept for equal responses."""

    def close(self) -> None:  # noqa: B027 (most started nothing)
        """End whatever was started."""


class FunctionGrader(Grader):
    """Grades whole shards with a function: there is nothing to start, to begin early, to keep or to end."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Accuracy and format of each row. Raises RewardError when the function breaks its contract."""
        return score_rows(self.scorer, rows)

    def close(self) -> None:
        """End the process of a user's function; the math grader's belong to this process."""
        close = getattr(self.scorer, "close", None)
        if close is not None:
            close()


def score_rows(scorer: Scorer, rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy (None: no score) and format of each row. Raises RewardError when the scorer breaks its contract."""
    scores = scorer(rows)
    if not isinstance(scores, list) or len(scores) != len(rows):
        size = f"{len(scores)} scores" if isinstance(scores, list) else f"a {type(scores).__name__}"
        raise RewardError(f"The reward function returned {size} for {len(rows)} responses; it must return one each")
    for row, score in enumerate(scores):
        if score is not None and not 0.0 <= _number(score) <= 1.0:
            where = f"problem {rows['id'].iloc[row]!r}, sample {rows['sample'].iloc[row]}"
            raise RewardError(
                f"The reward function gave {score!r} to {where}; accuracy is a number in [0, 1] (None: no score)"
            )
    accuracy = pd.array([None if score is None else float(score) for score in scores], dtype="Float64")
    return rows[ID_COLUMNS].assign(accuracy=accuracy, format=[format_reward(response) for response in rows["response"]])


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        return math.nan
