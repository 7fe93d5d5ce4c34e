"""The grader of a run: math answers, programs, or a function of the user."""

from pathlib import Path

from ares.config import ConfigError, RewardConfig
from ares.data import DataError, Problems
from ares.grading.code import CodeGrader
from ares.grading.functions import UserFunction, load_function
from ares.grading.grader import FunctionGrader, Grader, Scorer
from rewards.math import grade_answers


def load_grader(config: RewardConfig) -> Grader:
    """The grader of a run, not started yet. Raises ConfigError."""
    if config.kind != "code":
        return FunctionGrader(load_scorer(config))
    return CodeGrader(config.code)


def load_scorer(config: RewardConfig) -> Scorer:
    """The function that grades rows (columns of the problem, and `response`). Raises ConfigError."""
    if config.kind == "math":
        return lambda rows: grade_answers(rows["response"].tolist(), rows["answer"].tolist(), config.timeout)
    path, colon, name = config.kind.rpartition(":")
    if not colon:
        raise ConfigError(f"reward.kind={config.kind} is neither `math`, `code` nor path.py:function")
    return UserFunction(load_function(Path(path), name), Path(path), name, config.timeout)


def check_answers(config: RewardConfig, problems: Problems) -> None:
    """Raise DataError where a grader of ours cannot compare with an answer; a user's function is handed anything."""
    if config.kind != "math":
        return
    for name, answer in zip(problems.frame["id"], problems.frame["answer"], strict=True):
        if isinstance(answer, dict) or (isinstance(answer, list) and len(answer) != 1):
            raise DataError(
                f"{problems.source}: problem {name!r}: reward.kind=math compares with one answer, this is "
                f"{answer!r:.80}. Name another column with data.answer_key=…, or a function of your own with "
                "reward.kind=path.py:function"
            )
