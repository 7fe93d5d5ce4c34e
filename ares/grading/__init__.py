"""What an answer is worth: graders, with the processes in which they run.

Covered: math answers, programs, functions of the user. Not covered: designs of rewards and their shaping (rewards/).
"""

from ares.grading.function_grader import EXTRAS, SCORE
from ares.grading.grader import ID_COLUMNS, Grader, RewardError, check_grades
from ares.grading.graders import check_answers, load_grader
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
    "check_answers",
    "check_grades",
    "check_references",
    "check_scored",
    "load_grader",
    "try_on",
]
