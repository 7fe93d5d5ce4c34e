"""The interface of graders: rows in; for each row, accuracy and whatever else the grader knows of it out.

A sample that cannot be graded has no score (None), never zero. Not covered: what accuracy is used for (ares/step).
"""

from abc import ABC, abstractmethod

import pandas as pd

from ares.errors import UserError

ID_COLUMNS = ["id", "slot", "sample"]


class RewardError(UserError, RuntimeError):
    """A reward function raised, or returned something other than a list of scores."""

    def __init__(self, message: str, may_pass: bool = False) -> None:
        """may_pass: whether the same call may succeed later, as when a service is down: then it is retried."""
        super().__init__(message)
        self.may_pass = may_pass


class Grader(ABC):
    """Grades responses. Rows have the columns of their problems, and id, slot, sample and response."""

    def expect(self, *problems: pd.DataFrame | None) -> str:
        """Called with all problems before start(). Returns what on this machine affects its grades ("": nothing)."""
        return ""

    def start(self) -> None:  # noqa: B027 (most graders need nothing)
        """Start what it needs besides this process; before that nothing runs and nothing is rented."""

    def anticipate(self, rows: pd.DataFrame) -> None:  # noqa: B027 (most grade a shard at once)
        """Start on responses that have finished while others are being generated."""

    @abstractmethod
    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """id, slot, sample, accuracy in [0, 1] (null: no score), format, and what else the grader knows of each row.

        A column `score`, on any scale, is the reward of a response; without it, its accuracy is.
        """

    def try_on(self, rows: pd.DataFrame) -> None:
        """Grade rows before a run is created. Raises RewardError if the grades cannot be trained on."""
        check_grades(self.grade(rows), len(rows))

    def forget(self) -> None:  # noqa: B027 (most keep nothing)
        """Drop what was kept for identical responses."""

    def close(self) -> None:  # noqa: B027 (most started nothing)
        """Stop whatever was started."""


def check_grades(table: pd.DataFrame, count: int) -> None:
    """Raise RewardError if a grader's table has the wrong rows, lacks columns or has an accuracy outside [0, 1]."""
    missing = [name for name in (*ID_COLUMNS, "accuracy", "format") if name not in table]
    if missing or len(table) != count:
        lacking = f"; missing columns: {', '.join(missing)}" if missing else ""
        raise RewardError(f"The grader returned {len(table)} rows for {count} responses{lacking}")
    known = table["accuracy"].dropna().astype(float)
    for place in known.index[~known.between(0.0, 1.0)]:
        raise RewardError(
            f"The grader gave {float(known[place])} to problem {table['id'][place]!r}, sample "
            f"{table['sample'][place]}; an accuracy lies in [0, 1] (null: no score); a reward on another "
            "scale goes into the column `score`"
        )
