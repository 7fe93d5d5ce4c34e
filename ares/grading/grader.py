"""What a grader is: rows in, accuracy and whatever else it knows of each row out.

A sample that cannot be graded has no score (None), never zero. Not covered: what accuracy turns into (ares/step).
"""

from abc import ABC, abstractmethod

import pandas as pd

from ares.errors import UserError

ID_COLUMNS = ["id", "slot", "sample"]


class RewardError(UserError, RuntimeError):
    """A reward function raised, or returned something that is no list of scores."""

    def __init__(self, message: str, may_pass: bool = False) -> None:
        """may_pass: whether the same call may end otherwise, since what it asked was away: then it is tried again."""
        super().__init__(message)
        self.may_pass = may_pass


class Grader(ABC):
    """What grades responses. Rows have the columns of their problems, and id, slot, sample and response."""

    def expect(self, *problems: pd.DataFrame | None) -> str:
        """Told all problems before it is started. Returns what of this machine decides its grades, "" for nothing."""
        return ""

    def start(self) -> None:  # noqa: B027 (most graders need nothing)
        """Start what it needs besides this process; before that nothing runs and nothing is rented."""

    def anticipate(self, rows: pd.DataFrame) -> None:  # noqa: B027 (most grade a shard at once)
        """Begin with responses that have finished while others are generated."""

    @abstractmethod
    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """id, slot, sample, accuracy in [0, 1] (null: no score), format, and what else the grader knows of each row.

        With a column `score`, that is what a response is worth, on any scale; otherwise its accuracy is.
        """

    def try_on(self, rows: pd.DataFrame) -> None:
        """Grade rows before a run is created. Raises RewardError where what comes out cannot be trained with."""
        check_grades(self.grade(rows), len(rows))

    def forget(self) -> None:  # noqa: B027 (most keep nothing)
        """Drop what was kept for equal responses."""

    def close(self) -> None:  # noqa: B027 (most started nothing)
        """End whatever was started."""


def check_grades(table: pd.DataFrame, count: int) -> None:
    """Raise RewardError where a grader's table is none: rows, columns, or an accuracy outside [0, 1]."""
    missing = [name for name in (*ID_COLUMNS, "accuracy", "format") if name not in table]
    if missing or len(table) != count:
        raise RewardError(f"The grader returned {len(table)} rows for {count}, without {', '.join(missing) or 'error'}")
    known = table["accuracy"].dropna().astype(float)
    for place in known.index[~known.between(0.0, 1.0)]:
        raise RewardError(
            f"The grader gave {float(known[place])} to problem {table['id'][place]!r}, sample "
            f"{table['sample'][place]}; an accuracy lies in [0, 1] (null: no score), and what a response is worth on "
            "another scale is column score"
        )
