"""What MLflow is missing of a child when its ablation ends."""

from pathlib import Path

import pytest

from ares.ablations.tracking import complete_entry
from ares.errors import UserError
from tests.ares.reports.test_mlflow import entry_of, opened

GONE = "f" * 32


def test_an_entry_that_is_gone_is_made_anew(tmp_path: Path) -> None:
    """It ended the ablation with a traceback, before its report."""
    tracking, client = opened(tmp_path, steps=2, mlflow_run_id=GONE)
    complete_entry(tracking.config, tracking.store, finished=True)
    entry = entry_of(tracking, client)
    assert (entry.info.status, entry.data.tags["ares.logged_step"]) == ("FINISHED", "1")


def test_an_mlflow_that_is_away_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracking, _ = opened(tmp_path, "tracking.uri=http://127.0.0.1:9", steps=2, mlflow_run_id=GONE)
    with pytest.raises(UserError, match=r"^MLflow at http://127.0.0.1:9: .*$"):
        complete_entry(tracking.config, tracking.store, finished=True)


def test_a_child_that_is_tracked_elsewhere_stays_out_of_mlflow(tmp_path: Path) -> None:
    tracking, client = opened(tmp_path, "tracking.kind=jsonl", steps=2)
    complete_entry(tracking.config, tracking.store, finished=True)
    assert tracking.store.read_run()["mlflow_run_id"] is None
    assert client.get_experiment_by_name("tracked") is None
