"""An empty MLflow database beside runs, as a copy: MLflow's migrations would take a CPU second for each.

Not for a test of how MLflow makes one, nor for a run with `own_server` (short_runs.py).
"""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


def beside(runs: Path) -> None:
    """Put one beside runs that have none."""
    file = runs / "mlflow.db"
    if not file.exists():
        runs.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_made(), file)


@cache
def _made() -> Path:
    """This process's original."""
    from mlflow import MlflowClient  # slow to import

    folder = Path(tempfile.mkdtemp(prefix="ares-mlflow-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}").search_experiments()
    return folder / "mlflow.db"
