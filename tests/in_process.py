"""Runs in the test's own process, as `ares train --plain` trains them: without Prefect, Ray and MLflow."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ares.store import RunStore, runs_directory
from flows.start import open_run, train_plainly
from tests import mlflow_database


def run_in_this_process(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on runs lie in `runs`; MLflow, which evaluations are logged to, has a database there."""
    monkeypatch.setenv("ARES_RUNS", str(runs))
    mlflow_database.beside(runs)


def train_here(profile: str | None, settings: Sequence[str], name: str) -> RunStore:
    """Train a run, or resume it."""
    train_plainly(open_run(profile, list(settings), name))
    return RunStore(runs_directory() / name)
