"""Trackers log a run's commits where people look at them: MLflow, or what a profile names.

Covered: the interface, and the tracker of a run. Not covered: MLflow (ares/reports/mlflow.py).
"""

from abc import ABC, abstractmethod
from typing import Any

from ares.config import TRACKERS, Config
from ares.store import RunStore


class Tracker(ABC):
    """Logs a run's commits; `settings`: the tracker's own, if it has any, else config.tracking.

    The run directory is the truth: after an outage or a kill, a tracker finds there what it has missed.
    """

    def __init__(self, settings: Any, config: Config, store: RunStore) -> None:
        self.settings, self.config, self.store = settings, config, store

    @abstractmethod
    def catch_up(self) -> None:
        """Log every commit that is not logged yet. Runs in a thread beside the steps: may be slow, must not raise."""

    @abstractmethod
    def finish(self) -> None:
        """Log what is left; the run has ended."""

    def interrupt(self, state: str) -> None:  # noqa: B027 (many have nothing to show)
        """The run ended before its last step; state: FAILED or KILLED. A tracker may show it."""


def load_tracker(config: Config, store: RunStore) -> Tracker:
    """The tracker that tracking.kind names."""
    tracker: Tracker = TRACKERS.make(config.tracking, config, store)
    return tracker
