"""Many runs compared: the definition of an ablation, its rows, statistics and report.

Not covered: training the children (flows/ablate.py).
"""

from ares.ablations.definition import Ablation, Child, check_same_problems, list_children, read_ablation
from ares.ablations.report import write_report
from ares.ablations.rows import read_csv, read_rows
from ares.ablations.tracking import ParentRun, check_fixed, complete_entry
from ares.ablations.wording import conclude
