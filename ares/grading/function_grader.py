"""Rewards made of functions: the weighted sum of their scores, and what counts as a response's accuracy.

A function that does not apply to a response (None) adds nothing; if none applies, or one fails, the response has no
score. Not covered: calling the functions (ares/grading/functions.py).
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from ares.grading.functions import FunctionScore
from ares.grading.grader import ID_COLUMNS, Grader, RewardError
from rewards.aepo import format_reward

SCORE = "score"
"""Column with the reward of a response; `score_NAME` is the score from function NAME."""
EXTRAS = "extras"
"""Column with what functions return besides their scores, as JSON: {"compute_score": {"acc": 1.0}}."""

Scorer = Callable[[pd.DataFrame, bool], list[FunctionScore]]
"""(rows, whether this is the very first call) -> a score for each row."""
JUDGE = "reward.accuracy"
"""Key, among the scorers, of a function whose scores are accuracies and are not added."""


class FunctionGrader(Grader):
    """Adds up the scores of functions."""

    def __init__(
        self, scorers: dict[str, Scorer], weights: dict[str, float], accuracy: float | str | None = None
    ) -> None:
        """scorers: by the names of their parts, plus JUDGE if there is one. accuracy: the least reward of a right
        response, or the name of a part; None: JUDGE's score, else that of the only function."""
        self.scorers, self.weights, self.accuracy = scorers, weights, accuracy

    def grade(self, rows: pd.DataFrame, first: bool = False) -> pd.DataFrame:
        """accuracy, format, score, score_NAME of each function and, if there are any, extras.

        Raises RewardError if a function raises or breaks its contract.
        """
        with ThreadPoolExecutor(len(self.scorers)) as threads:  # each has a process of its own
            asked = {name: threads.submit(scorer, rows, first) for name, scorer in self.scorers.items()}
        said = {name: answers.result() for name, answers in asked.items()}
        judged = said.pop(JUDGE, None)
        scores = np.array([[np.nan if each.score is None else each.score for each in said[name]] for name in said])
        weighted = np.array([self.weights[name] for name in said])[:, None] * scores
        absent = np.isnan(scores).all(0) | np.array([[each.failed for each in said[name]] for name in said]).any(0)
        rewards = np.where(absent, np.nan, np.nansum(weighted, 0))
        accuracy = [
            None if missing else _accuracy(value, rows, place)
            for place, (missing, value) in enumerate(zip(absent, self._accuracies(said, judged, rewards), strict=True))
        ]
        unknown = np.array([value is None for value in accuracy], dtype=bool)
        extras = [_extras(each) for each in zip(*([(name, of) for of in said[name]] for name in said), strict=True)]
        columns: dict[str, Any] = {
            "accuracy": pd.array(accuracy, dtype="Float64"),
            "format": [format_reward(response) for response in rows["response"]],
            SCORE: np.where(unknown, np.nan, rewards),
        } | {f"{SCORE}_{name}": values for name, values in zip(said, scores, strict=True)}
        if any(extras):
            columns[EXTRAS] = extras
        return rows[ID_COLUMNS].assign(**columns)

    def try_on(self, rows: pd.DataFrame) -> None:
        """The very first call: functions get more time, and must not fail."""
        self.grade(rows, first=True)

    def close(self) -> None:
        """End the processes of the user's functions."""
        for scorer in self.scorers.values():
            close = getattr(scorer, "close", None)  # the math grader's processes belong to the run's
            if close is not None:
                close()

    def _accuracies(
        self, said: dict[str, list[FunctionScore]], judged: list[FunctionScore] | None, rewards: np.ndarray
    ) -> list[Any]:
        """The accuracy claimed for each response, unchecked."""
        if isinstance(self.accuracy, float):
            return [float(reward >= self.accuracy) for reward in rewards]
        if judged is not None:
            return [each.score for each in judged]
        name = self.accuracy if self.accuracy is not None else next(iter(said))
        if name in said:
            return [each.score for each in said[name]]
        for answers in said.values():
            if any(name in each.extras for each in answers):
                return [each.extras.get(name) for each in answers]
        if not any(each.score is not None for answers in said.values() for each in answers):
            return [None] * len(rewards)
        parts = [*said, *dict.fromkeys(key for answers in said.values() for each in answers for key in each.extras)]
        raise RewardError(f"reward.accuracy={name}: the parts of the reward are {', '.join(parts)}")


def _accuracy(value: Any, rows: pd.DataFrame, place: int) -> float | None:
    """The value as an accuracy. Otherwise raises RewardError with the setting that derives one from any scale."""
    if value is None or (isinstance(value, int | float) and 0.0 <= value <= 1.0):
        return None if value is None else float(value)
    raise RewardError(
        f"The reward gave {value!r:.80} to problem {rows['id'].iloc[place]!r}, sample {rows['sample'].iloc[place]}; "
        "difficulty buckets, the accuracy filter and pass@k need an accuracy, a number in [0, 1] (None: no score). "
        "Set reward.accuracy=…: the least reward of a right response (0.5), the name of a part, or a function "
        "(path.py:function)"
    )


def _extras(said: tuple[tuple[str, FunctionScore], ...]) -> str | None:
    extras = {name: each.extras for name, each in said if each.extras}
    return json.dumps(extras) if extras else None
