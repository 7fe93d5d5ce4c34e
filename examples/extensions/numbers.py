import re

import pandas as pd

from ares.grading import ID_COLUMNS, Grader


class Nearest(Grader):
    """The nearer the last number of a response is to the answer, the better."""

    def __init__(self, section: object) -> None: ...

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        scores = [self._score(*pair) for pair in zip(rows["response"], rows["answer"], strict=True)]
        return rows[ID_COLUMNS].assign(accuracy=pd.array(scores, dtype="Float64"), format=1.0)

    def _score(self, response: str, answer: str) -> float:
        numbers = re.findall(r"-?\d+", response)
        return 1 / (1 + abs(int(numbers[-1]) - int(answer))) if numbers else 0.0
