import numpy as np

from ares.step import JudgedPrograms


class PassedSquared:
    """The share of tests passed, squared."""

    def __init__(self, section: object) -> None: ...

    def reward(self, seen: JudgedPrograms) -> np.ndarray:
        return np.array([passed.mean() for passed in seen.outcomes.passed]) ** 2
