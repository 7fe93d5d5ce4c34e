"""An empty MLflow database beside runs, as a copy: MLflow's migrations would take a CPU second for each.

Not for a test of how MLflow makes one, nor for a run with `own_server` (short_runs.py).
"""

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

FOLDER = "ARES_TEST_MLFLOW"
"""Environment variable: where the original is, for the workers of xdist too."""


def folder() -> Path:
    """Where the original is, or will be once a copy is asked for; it is gone with this process."""
    if FOLDER not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="ares-mlflow-")
        atexit.register(shutil.rmtree, os.environ[FOLDER], ignore_errors=True)
    return Path(os.environ[FOLDER])


def beside(runs: Path) -> str:
    """The URI of the database beside runs, which now exists."""
    file = runs / "mlflow.db"
    if not file.exists():
        runs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_made(), file)
    return f"sqlite:///{file}"


def _made() -> Path:
    made, unfinished = folder() / "mlflow.db", folder() / "unfinished.db"
    with (folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            from mlflow import MlflowClient  # slow to import, and the controller of xdist asks for the folder alone

            MlflowClient(tracking_uri=f"sqlite:///{unfinished}").search_experiments()
            unfinished.rename(made)
    return made
