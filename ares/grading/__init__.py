"""What an answer is worth: graders, with the processes in which they run.

Covered: math answers, programs, functions of the user. Not covered: designs of rewards and their shaping (rewards/).
"""

from ares.grading.grader import ID_COLUMNS, Grader, RewardError
from ares.grading.graders import check_answers, load_grader
from ares.grading.unscored import check_scored

__all__ = [
    "ID_COLUMNS",
    "Grader",
    "RewardError",
    "check_answers",
    "check_scored",
    "load_grader",
]
