"""Graders, which score responses, and the processes they run in.

Covered: math answers, programs, user functions. Not covered: reward designs and shaping (rewards/).
"""

from ares.grading.code import check_references
from ares.grading.grader import (
    ID_COLUMNS,
    Grader,
    RewardError,
    answered,
    check_grades,
    check_scored,
    try_on,
    without_broken_episodes,
)
from ares.grading.graders import EXTRAS, SCORE, load_grader

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
    "without_broken_episodes",
]
