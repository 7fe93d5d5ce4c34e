"""Reports on a run: MLflow, the terminal, sample tables.

Not covered: comparisons over several runs (ares/ablations).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ares.reports.reporting import Reporting, Tracker
from ares.reports.samples import list_tests, sample_report, samples_table
from ares.reports.terminal import Display, Parts, bars, console, held_out_line, step_line

if TYPE_CHECKING:
    from ares.reports.entry import AWAY, Entry, find_or_create, mlflow_page, reason
    from ares.reports.evaluation_entry import log_evaluation, log_rescore
    from ares.reports.mlflow import Tracking

_WITH_MLFLOW = {
    "AWAY": "entry", "Entry": "entry", "Tracking": "mlflow", "find_or_create": "entry",
    "log_evaluation": "evaluation_entry", "log_rescore": "evaluation_entry", "mlflow_page": "entry",
    "reason": "entry",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load what needs MLflow lazily: it takes as long to load as torch, and a run starts without it."""
    if name not in _WITH_MLFLOW:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WITH_MLFLOW[name]}"), name)
