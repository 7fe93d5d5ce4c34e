"""The grader of a run: math answers, programs, or what the user's file holds."""

from pathlib import Path

from ares.config import GRADERS, RewardConfig
from ares.data import DataError, Problems, is_one_answer
from ares.grading.code import CodeGrader
from ares.grading.functions import UserFunction
from ares.grading.grader import FunctionGrader, Grader
from rewards.math import grade_answers


def load_grader(config: RewardConfig) -> Grader:
    """The grader of a run, not started yet. Raises ConfigError."""
    named = GRADERS.implementation(config.kind)
    if config.kind in GRADERS.builtin or isinstance(named, type):
        grader: Grader = GRADERS.made(config)
        return grader
    path, _, name = config.kind.rpartition(":")
    return FunctionGrader(UserFunction(named, Path(path), name, config.timeout))


def math_grader(config: RewardConfig) -> Grader:
    """reward.kind=math: the last box against the answer."""
    return FunctionGrader(
        lambda rows: grade_answers(rows["response"].tolist(), rows["answer"].tolist(), config.timeout)
    )


def code_grader(config: RewardConfig) -> Grader:
    """reward.kind=code: unit tests in the sandbox."""
    return CodeGrader(config.code)


def check_answers(config: RewardConfig, problems: Problems) -> None:
    """Raise DataError where a grader of ours cannot compare with an answer; a user's function is handed anything."""
    if config.kind != "math":
        return
    for name, answer in zip(problems.frame["id"], problems.frame["answer"], strict=True):
        if not is_one_answer(answer):
            raise DataError(
                f"{problems.source}: problem {name!r}: reward.kind=math compares with one answer, this is "
                f"{answer!r:.80}. Name another column with data.answer_key=…, or a function of your own with "
                "reward.kind=path.py:function"
            )
