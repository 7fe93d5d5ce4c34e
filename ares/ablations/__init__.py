"""Many runs compared: the definition of an ablation, its rows, statistics and report.

Not covered: training the children (flows/ablate.py).
"""

from ares.ablations.definition import Ablation, Child, children, read_ablation
from ares.ablations.display import AblationDisplay
from ares.ablations.report import conclusion, write_report
from ares.ablations.rows import read_rows
from ares.ablations.tracking import ParentRun, complete_entry

__all__ = [
    "Ablation",
    "AblationDisplay",
    "Child",
    "ParentRun",
    "children",
    "complete_entry",
    "conclusion",
    "read_ablation",
    "read_rows",
    "write_report",
]
