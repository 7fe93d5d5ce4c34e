"""What follows a run's commits and keeps them where people look: MLflow, or what a profile names.

Covered: the interface, and the tracker of a run. Not covered: MLflow (ares/reports/mlflow.py).
"""

from abc import ABC, abstractmethod
from typing import Any

from ares.config import TRACKERS, Config
from ares.store import RunStore


class Tracker(ABC):
    """Brings a record of a run up to its last commit; `settings`: its own, where it has some, else config.tracking.

    The run directory is the truth: a tracker that was away, or whose run was killed, finds there what it has missed.
    """

    def __init__(self, settings: Any, config: Config, store: RunStore) -> None:
        self.settings, self.config, self.store = settings, config, store

    @abstractmethod
    def catch_up(self) -> None:
        """Log every commit that is not logged yet. Called beside the steps, in a thread: it may be slow, not raise."""

    @abstractmethod
    def finish(self) -> None:
        """Log what is left; the run has ended."""


def load_tracker(config: Config, store: RunStore) -> Tracker:
    """The tracker that tracking.kind names."""
    tracker: Tracker = TRACKERS.made(config.tracking, config, store)
    return tracker
