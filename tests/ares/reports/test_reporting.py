"""When a run's tracker is asked, and how it learns that the run has ended. Not covered: MLflow (test_mlflow.py)."""

from types import SimpleNamespace

import pytest

from ares.config import TrackingConfig
from ares.reports import Reporting, reporting


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, ["finished"]),
        (RuntimeError("the judge is down"), ["FAILED"]),
        (KeyboardInterrupt(), ["KILLED"]),
    ],
)
def test_the_tracker_is_told_how_a_run_ended(
    error: BaseException | None, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that failed or was stopped stayed RUNNING in MLflow."""
    heard: list[str] = []
    tracker = SimpleNamespace(
        catch_up=lambda: heard.append("catch up"), finish=lambda: heard.append("finished"), interrupt=heard.append
    )
    monkeypatch.setattr(reporting, "TRACKERS", SimpleNamespace(make=lambda *_: tracker))

    def run() -> None:
        with Reporting(SimpleNamespace(config=SimpleNamespace(tracking=TrackingConfig()), store=None)):
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    assert heard == told
