"""What people see of a run: MLflow, the terminal, sample pages, plots.

Not covered: comparisons over several runs (ares/ablations).
"""

from typing import TYPE_CHECKING, Any

from ares.reports.sample_page import write_samples
from ares.reports.samples import sample_report, samples_table
from ares.reports.terminal import Display, Parts, bars
from ares.reports.tracker import Tracker, load_tracker

if TYPE_CHECKING:
    from ares.reports.mlflow import PROBLEMS, Tracking, open_experiment

__all__ = [
    "PROBLEMS",
    "Display",
    "Parts",
    "Tracker",
    "Tracking",
    "bars",
    "load_tracker",
    "open_experiment",
    "sample_report",
    "samples_table",
    "write_samples",
]


def __getattr__(name: str) -> Any:
    """What needs MLflow, which takes as long to load as torch: a run begins without it."""
    if name not in ("PROBLEMS", "Tracking", "open_experiment"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ares.reports import mlflow

    return getattr(mlflow, name)
