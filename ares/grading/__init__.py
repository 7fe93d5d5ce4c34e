"""Graders, which score responses, and the processes they run in.

Covered: math answers, programs, user functions. Not covered: reward designs and shaping (rewards/).
"""

from ares.grading.function_grader import EXTRAS, SCORE
from ares.grading.grader import ID_COLUMNS, Grader, RewardError, check_grades
from ares.grading.graders import load_grader
from ares.grading.references import check_references
from ares.grading.trial import answered, try_on
from ares.grading.unscored import check_scored

__all__ = [
    "EXTRAS",
    "ID_COLUMNS",
    "SCORE",
    "Grader",
    "RewardError",
    "answered",
    "check_grades",
    "check_references",
    "check_scored",
    "load_grader",
    "try_on",
]
