"""What people see of a run: MLflow, the terminal, sample pages, plots.

Not covered: comparisons over several runs (ares/ablations).
"""

from typing import TYPE_CHECKING, Any

from ares.reports.pages import VIEW, mlflow_page
from ares.reports.sample_page import write_samples
from ares.reports.samples import sample_report, samples_table
from ares.reports.terminal import Display, Parts, bars, console, held_out_line, step_line
from ares.reports.tracker import Tracker, load_tracker

if TYPE_CHECKING:
    from ares.reports.evaluation_entry import log_evaluation
    from ares.reports.mlflow import PROBLEMS, Tracking, open_experiment

__all__ = [
    "PROBLEMS",
    "VIEW",
    "Display",
    "Parts",
    "Tracker",
    "Tracking",
    "bars",
    "console",
    "held_out_line",
    "load_tracker",
    "log_evaluation",
    "mlflow_page",
    "open_experiment",
    "sample_report",
    "samples_table",
    "step_line",
    "write_samples",
]


def __getattr__(name: str) -> Any:
    """What needs MLflow, which takes as long to load as torch: a run begins without it."""
    if name == "log_evaluation":
        from ares.reports.evaluation_entry import log_evaluation

        return log_evaluation
    if name not in ("PROBLEMS", "Tracking", "open_experiment"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ares.reports import mlflow

    return getattr(mlflow, name)
