"""Where a link leads: to MLflow's server, else to the `ares up` of the directory of runs, else nowhere."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ares.reports.pages import mlflow_page

DATABASE = "sqlite:////somewhere/mlflow.db"


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARES_MLFLOW_PAGE", raising=False)


def running(runs: Path, pid: int) -> None:
    (runs / ".services").mkdir(exist_ok=True)
    (runs / ".services" / "services.json").write_text(json.dumps({"pid": pid, "mlflow": "http://127.0.0.1:5100"}))


def test_a_server_is_its_own_page_and_a_worker_is_told_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mlflow_page("http://me:secret@mlflow.example/", tmp_path) == "http://mlflow.example"
    monkeypatch.setenv("ARES_MLFLOW_PAGE", "http://127.0.0.1:5100")
    assert mlflow_page("http://mlflow.example/", tmp_path) == "http://mlflow.example"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    assert mlflow_page("http://mlflow:5000", tmp_path) == "http://127.0.0.1:5100"
    assert mlflow_page(DATABASE, tmp_path) == "http://127.0.0.1:5100"


def test_a_database_is_shown_by_a_running_ares_up(tmp_path: Path) -> None:
    assert mlflow_page(DATABASE, tmp_path) is None
    running(tmp_path, os.getpid())
    assert mlflow_page(DATABASE, tmp_path) == "http://127.0.0.1:5100"
    gone = subprocess.Popen(["true"])
    gone.wait()
    running(tmp_path, gone.pid)
    assert mlflow_page(DATABASE, tmp_path) is None
