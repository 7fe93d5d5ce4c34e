"""The grader of a run: math answers, programs, functions, or one from the user's file."""

import pandas as pd

from ares.config import GRADERS, RewardConfig, part_name
from ares.data import DataError, Problems, is_one_answer
from ares.grading.code import CodeGrader
from ares.grading.function_grader import JUDGE, FunctionGrader, Scorer
from ares.grading.functions import FunctionScore, UserFunction
from ares.grading.grader import ID_COLUMNS, Grader
from rewards.aepo import format_reward
from rewards.math import grade_answers


def load_grader(config: RewardConfig) -> Grader:
    """The grader of a run, not started yet. Raises ConfigError."""
    if not config.adds_functions:
        grader: Grader = GRADERS.make(config)
        return grader
    scorers = {
        part_name(kind): _scorer(kind, "reward.kind", timeout)
        for kind, timeout in zip(config.kinds, config.timeouts, strict=True)
    }
    accuracy = config.accuracy
    if isinstance(accuracy, str):
        if accuracy in config.kinds:
            accuracy = part_name(accuracy)
        elif config.accuracy_function is not None:
            scorers[JUDGE] = _scorer(accuracy, "reward.accuracy", max(config.timeouts))
            accuracy = None
    return FunctionGrader(scorers, config.weight_of, accuracy)


def _scorer(kind: str, setting: str, timeout: float) -> Scorer:
    if kind == "math":

        def said(rows: pd.DataFrame, first: bool) -> list[FunctionScore]:
            grades = grade_answers(rows["response"].tolist(), rows["answer"].tolist(), timeout)
            return [FunctionScore(grade, failed=grade is None) for grade in grades]

        return said
    return UserFunction(GRADERS.implementation(kind), setting, kind, timeout)


class MathGrader(Grader):
    """reward.kind=math: compares the last box with the answer."""

    def __init__(self, config: RewardConfig) -> None:
        self.config = config

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Accuracy (null: the grader failed, or took too long) and format of each row."""
        grades = grade_answers(rows["response"].tolist(), rows["answer"].tolist(), *self.config.timeouts)
        return rows[ID_COLUMNS].assign(
            accuracy=pd.array(grades, dtype="Float64"),
            format=[format_reward(response) for response in rows["response"]],
        )


def code_grader(config: RewardConfig) -> Grader:
    """reward.kind=code: unit tests in the sandbox."""
    return CodeGrader(config.code)


def check_answers(config: RewardConfig, problems: Problems) -> None:
    """Raise DataError if one of our graders cannot compare with an answer; a user's function is passed anything."""
    if not config.compares_answers:
        return
    for name, answer in zip(problems.frame["id"], problems.frame["answer"], strict=True):
        if not is_one_answer(answer):
            raise DataError(
                f"{problems.source}: problem {name!r}: reward.kind=math compares with one answer, this is "
                f"{answer!r:.80}. Name another column with data.answer_key=…, or a function of your own with "
                "reward.kind=path.py:function"
            )
