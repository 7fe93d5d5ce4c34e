"""Graders, which score responses, and the processes they run in.

Covered: math answers, programs, user functions, models behind a URL. Not covered: designs and shaping (rewards/).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.grading.code import check_references
    from ares.grading.grader import (
        ANSWERED,
        ID_COLUMNS,
        Grader,
        RewardError,
        answered,
        check_scored,
        grade_rows,
        try_on,
    )
    from ares.grading.graders import EXTRAS, SCORE, load_grader
    from ares.grading.teacher import Teacher
    from ares.grading.trials import check_solutions
else:
    __getattr__ = exports(__name__)
