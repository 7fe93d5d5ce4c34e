"""An environment: a number between two others is to be found. It lies where most numbers are left: no luck helps.

20 to 34          27          28 to 34          28          29 to 34          31          …
"""

import re
from collections.abc import Mapping
from typing import Any

from ares.environments import Reply


class Guess:
    """An episode of the game."""

    def __init__(self, guesses: int = 5) -> None:
        self.left = guesses

    def reset(self, row: Mapping[str, Any], seed: int) -> str:
        """Begin between the row's `low` and `high`."""
        self.low, self.high = int(row["low"]), int(row["high"])
        return self._between()

    def step(self, text: str) -> Reply:
        """Keep the numbers on the longer side of a guess. What is no number between the two is a guess lost."""
        self.left -= 1
        guess = int(text) if re.fullmatch(r"[0-9]{1,9}", text.strip()) else self.low - 1
        legal = self.low <= guess <= self.high
        if legal and self.low == self.high:
            return Reply(done=True, reward=1.0)
        if legal and guess - self.low > self.high - guess:
            self.high = guess - 1
        elif legal:
            self.low = guess + 1
        return Reply(self._between(), reward=0.0, done=self.left == 0, metrics={"illegal": float(not legal)})

    def _between(self) -> str:
        return f"{self.low} to {self.high}"
