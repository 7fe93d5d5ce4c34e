"""Opening and resuming a run; forks, differences, verification, exports, retention, the doctor.

Not covered: the order of a run's work (flows/).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.runs.conductor import Conductor
    from ares.runs.description import (
        check_model,
        check_unchanged,
        code_version,
        drawn_identity,
        identity_of,
        model_digest,
        run_files,
        what_grades,
    )
    from ares.runs.doctor import findings
    from ares.runs.lineage import fork, share_bootstrap
    from ares.runs.model_files import export, import_gguf
    from ares.runs.phase_settings import find_conflicts
    from ares.runs.resumption import under_way
    from ares.runs.retention import Policy, collect
    from ares.runs.run import MakeWorkers, Run
    from ares.runs.sets import all_files, first_files, load_sets
    from ares.runs.step import Step
    from ares.runs.verification import first_difference, verify
else:
    __getattr__ = exports(__name__)
