"""What people see of a run: MLflow, the terminal, sample pages, plots.

Not covered: comparisons over several runs (ares/ablations).
"""

from ares.reports.mlflow import Tracking, open_experiment
from ares.reports.sample_page import write_samples
from ares.reports.samples import sample_report, samples_table
from ares.reports.terminal import Display, Parts, bars
from ares.reports.tracker import Tracker, load_tracker

__all__ = [
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
