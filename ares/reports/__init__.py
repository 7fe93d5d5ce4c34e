"""Reports on a run: MLflow, the terminal, sample tables.

Not covered: comparisons over several runs (ares/ablations).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.reports.entry import AWAY, Entry, find_or_create, reason
    from ares.reports.evaluation_entry import log_evaluation, log_rescore
    from ares.reports.mlflow import Tracking
    from ares.reports.reporting import Reporting, Tracker
    from ares.reports.samples import list_tests, sample_report, samples_table
    from ares.reports.terminal import Display, Parts, bars, console, held_out_line, step_line
else:
    __getattr__ = exports(__name__)
