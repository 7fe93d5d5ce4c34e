"""Many runs compared: the definition of an ablation, its rows, statistics and report.

Not covered: training the children (flows/ablate.py).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.ablations.definition import Ablation, Child, check_same_problems, list_children, read_ablation
    from ares.ablations.report import write_report
    from ares.ablations.rows import read_csv, read_rows
    from ares.ablations.tracking import ParentRun, check_fixed, complete_entry
    from ares.ablations.wording import conclude
else:
    __getattr__ = exports(__name__)
