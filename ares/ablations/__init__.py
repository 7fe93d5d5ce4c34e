"""Many runs compared: the definition of an ablation, its rows, statistics and report.

Not covered: training the children (flows/ablate.py).
"""

from ares.ablations.comparison import conclusion
from ares.ablations.definition import Ablation, Child, children, read_ablation
from ares.ablations.display import AblationDisplay
from ares.ablations.report import write_page, write_report
from ares.ablations.rows import read_rows
from ares.ablations.tables import read_csv
from ares.ablations.tracking import ParentRun, check_fixed, complete_entry

__all__ = [
    "Ablation",
    "AblationDisplay",
    "Child",
    "ParentRun",
    "check_fixed",
    "children",
    "complete_entry",
    "conclusion",
    "read_ablation",
    "read_csv",
    "read_rows",
    "write_page",
    "write_report",
]
