"""A curriculum: training draws from one level of problems, and from the next one when that is mastered.

    level        0   0   0   0   0 │ 1   1   1   1   1   1 │ 2 …
    accuracy    .2  .4  .5  .7  .8 │.3  .5  .6  .7  .7  .8 │     mean of the level's last `window` groups
                          threshold ┘             threshold ┘     and the window begins anew

The last level stays. A level whose problems are all left out as solved (`drop_allpass_entropy_threshold`) is over,
even before its window is full. Covered: when the level rises, and what a resume restores. Not covered: which problems a
level has (one source of data.train each), drawing them (ares/runs/run.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from algorithms.settings import Strict
from algorithms.state import check_state


class CurriculumSettings(Strict):
    """When the next level begins."""

    threshold: float = Field(0.7, gt=0, le=1)
    """Accuracy over the window from which on the next level is drawn from."""
    window: int = Field(64, ge=1, le=100_000)
    """Groups over which the accuracy is taken, the level's newest ones, those that are filtered out too."""


class Curriculum:
    """The level that training draws from, and the accuracies of its newest groups."""

    def __init__(self, settings: CurriculumSettings, levels: int) -> None:
        self.settings = settings
        self.levels = levels
        self.level = 0
        self._recent: list[float] = []

    def observe(self, levels: Sequence[int], accuracies: Sequence[float]) -> None:
        """Take the level and accuracy of each group of a draw [groups]; rise where the level is mastered.

        Groups of an earlier level, which a stale draw may still have, do not count.
        """
        own = [accuracy for level, accuracy in zip(levels, accuracies, strict=True) if level == self.level]
        self._recent = [*self._recent, *own][-self.settings.window :]
        is_full = len(self._recent) == self.settings.window
        if is_full and not self.is_last and self._accuracy() >= self.settings.threshold:
            self.rise()

    @property
    def is_last(self) -> bool:
        """Whether there is no level after this one."""
        return self.level + 1 == self.levels

    def rise(self) -> None:
        """Go to the next level: this one is mastered, or none of its problems is left to draw."""
        self.level += 1
        self._recent = []

    def _accuracy(self) -> float:
        return sum(self._recent) / len(self._recent)

    def metrics(self) -> dict[str, float]:
        """`curriculum/level`, from 0; `curriculum/accuracy` over the window, once it has a group."""
        known = {"curriculum/accuracy": self._accuracy()} if self._recent else {}
        return {"curriculum/level": float(self.level)} | known

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {"level": self.level, "recent": list(self._recent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state. Raises ValueError when it does not fit."""
        check_state(state, self.state_dict(), "curriculum state")
        self.level, self._recent = state["level"], list(state["recent"])
