"""The grader of a run: math answers, programs, functions, or one from the user's file."""

import pandas as pd

from ares.config import GRADERS, RewardConfig, part_name
from ares.grading.code import CodeGrader
from ares.grading.function_grader import JUDGE, FunctionGrader, Scorer
from ares.grading.functions import FunctionScore, UserFunction
from ares.grading.grader import ID_COLUMNS, Grader
from rewards.aepo import format_reward
from rewards.math import BOXED, asked_format, grade_answers


def load_grader(config: RewardConfig) -> Grader:
    """The grader of a run, not started yet. Raises ConfigError."""
    if not config.adds_functions:
        grader: Grader = GRADERS.make(config)
        return grader
    scorers = {
        part_name(kind): _scorer(config, kind, "reward.kind", timeout)
        for kind, timeout in zip(config.kinds, config.timeouts, strict=True)
    }
    accuracy = config.accuracy
    if isinstance(accuracy, str):
        if accuracy in config.kinds:
            accuracy = part_name(accuracy)
        elif config.accuracy_function is not None:
            scorers[JUDGE] = _scorer(config, accuracy, "reward.accuracy", max(config.timeouts))
            accuracy = None
    return FunctionGrader(scorers, config.weight_of, accuracy)


def _scorer(config: RewardConfig, kind: str, setting: str, timeout: float) -> Scorer:
    if kind == "math":
        return lambda rows, first: [FunctionScore(grade) for grade in _grades(rows, config)]
    return UserFunction(GRADERS.implementation(kind), setting, kind, timeout)


def _grades(rows: pd.DataFrame, config: RewardConfig) -> list[float]:
    """1 for each right answer, read where reward.answer says, else where the prompt asks for it."""
    where = [config.answer or asked_format(prompt) or BOXED for prompt in rows["prompt"]]
    return grade_answers(rows["response"].tolist(), rows["answer"].tolist(), where, config.computed)


class MathGrader(Grader):
    """reward.kind=math: compares the response's answer with the row's."""

    def __init__(self, config: RewardConfig) -> None:
        self.config = config

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Accuracy and format of each row."""
        return rows[ID_COLUMNS].assign(
            accuracy=pd.array(_grades(rows, self.config), dtype="Float64"),
            format=[format_reward(response) for response in rows["response"]],
        )


def code_grader(config: RewardConfig) -> Grader:
    """reward.kind=code: unit tests in the sandbox."""
    return CodeGrader(config.code)
