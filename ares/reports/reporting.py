"""Trackers log a run's commits where people look at them: MLflow, or what a profile names.

Covered: the interface, and the thread beside the steps in which a run's tracker is asked. Not covered: MLflow
(ares/reports/mlflow.py).
"""

from threading import Event, Thread
from typing import Any

from ares.config import TRACKERS, Config, TrackingConfig
from ares.runs import Run
from ares.store import Commit, RunStore

PAUSE_SECONDS = 5.0
"""Between two reports: several short steps share a call, and no step waits for a slow or absent MLflow."""
INTERRUPTED_SECONDS = 5.0
"""How long a run that failed or was stopped waits for its tracker to know."""


class Tracker:
    """Logs a run's commits; `settings`: the tracker's own, if it has any, else config.tracking. Write `log`, or all of
    `catch_up`.

    The run directory is the truth: after an outage or a kill, a tracker finds there what it has missed.
    """

    def __init__(self, settings: Any, config: Config, store: RunStore) -> None:
        self.settings, self.config, self.store = settings, config, store
        self.logged: str | None = None
        """Digest of the last commit that is logged."""

    def catch_up(self) -> None:
        """Log every commit that is not logged yet; if the run has redone one that is, all of them anew.

        Runs in a thread beside the steps: may be slow, must not raise.
        """
        for step in self.unlogged():
            if step == 0:
                self.begin()
            self.log(self.store.read_commit(step))
            self.logged = self.store.digest(step)

    def unlogged(self) -> list[int]:
        """The committed steps that are not logged yet. If the run has redone the last one that is, these are all."""
        steps = self.store.committed_steps()
        digests = [self.store.digest(step) for step in steps]
        return steps[digests.index(self.logged) + 1 :] if self.logged in digests else steps

    def begin(self) -> None:
        """Give up what is logged already: the bootstrap comes next."""

    def log(self, commit: Commit) -> None:
        """Log one commit; they come in order."""
        raise NotImplementedError

    def finish(self) -> None:
        """Log what is left; the run has ended."""
        self.catch_up()

    def interrupt(self, state: str) -> None:
        """Log what is left; the run ended before its last step, and a resume goes on. state: FAILED or KILLED."""
        self.finish()


class Reporting:
    """A thread that logs commits. Leaving the context without an error logs what is left and closes the entry."""

    def __init__(self, run: Run, with_mlflow: bool = True) -> None:
        """with_mlflow: whether MLflow is told, where the run's settings say so. Raises UserError if a tracker's package
        is missing."""
        sections = run.config.tracking.one_by_one()
        self._run = run
        self._trackers = [self._make(section) for section in sections if section.kind != "mlflow"]
        self._mlflow = [section for section in sections if section.kind == "mlflow" and with_mlflow]
        self._ending = Event()
        self._state = "KILLED"
        self._error: Exception | None = None
        self._thread = Thread(target=self._report, name="reporting", daemon=True)

    def __enter__(self) -> "Reporting":
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._state = "FINISHED" if error is None else "FAILED" if isinstance(error, Exception) else "KILLED"
        self._ending.set()
        self._thread.join(None if error is None else INTERRUPTED_SECONDS)
        if error is None:
            self.committed()

    def committed(self) -> None:
        """Raise what the tracker has raised, since that ends the run."""
        if self._error is not None:
            raise self._error

    def _make(self, section: TrackingConfig) -> Tracker:
        tracker: Tracker = TRACKERS.make(section, self._run.config, self._run.store)
        return tracker

    def _report(self) -> None:
        try:
            self._trackers += map(self._make, self._mlflow)  # here, since MLflow takes seconds to load
            while not self._ending.wait(PAUSE_SECONDS):
                for tracker in self._trackers:
                    tracker.catch_up()
            for tracker in self._trackers:
                if self._state == "FINISHED":
                    tracker.finish()
                else:
                    tracker.interrupt(self._state)
        except Exception as error:  # noqa: BLE001 (it is raised in the run's own thread)
            self._error = error
