"""Logging a run's commits to its tracker in a thread beside the steps.

Covered: when the tracker is asked. Not covered: what it logs (ares/reports/mlflow.py).
"""

from threading import Event, Thread
from types import TracebackType

from ares.reports.tracker import load_tracker
from ares.runs import Run

PAUSE_SECONDS = 5.0
"""Between two reports: several short steps share a call, and no step waits for a slow or absent MLflow."""
INTERRUPTED_SECONDS = 5.0
"""How long a run that failed or was stopped waits for its tracker to know."""


class Reporting:
    """A thread that logs commits. Leaving the context without an error logs what is left and closes the entry."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ending = Event()
        self._state = "KILLED"
        self._error: Exception | None = None
        self._thread = Thread(target=self._report, name="reporting", daemon=True)

    def __enter__(self) -> "Reporting":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._state = "FINISHED" if error is None else "FAILED" if isinstance(error, Exception) else "KILLED"
        self._ending.set()
        self._thread.join(None if error is None else INTERRUPTED_SECONDS)
        if error is None:
            self.committed()

    def committed(self) -> None:
        """Raise what the tracker has raised, since that ends the run."""
        if self._error is not None:
            raise self._error

    def _report(self) -> None:
        try:
            tracker = load_tracker(self._run.config, self._run.store)
            while not self._ending.wait(PAUSE_SECONDS):
                tracker.catch_up()
            if self._state == "FINISHED":
                tracker.finish()
            else:
                tracker.interrupt(self._state)
        except Exception as error:  # noqa: BLE001 (it is raised in the run's own thread)
            self._error = error
