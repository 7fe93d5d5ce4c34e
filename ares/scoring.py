"""Accuracy of responses: the built-in graders, and reward functions of the user's own.

Covered: math answers; programs (ares/code_grading.py); `path.py:function` with TRL's signature
f(completions, **columns) or verl's compute_score(data_source, solution_str, ground_truth, extra_info). A sample that
cannot be graded has no score (None), never zero. Not covered: what accuracy turns into (ares/batch.py).
"""

import hashlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from ares.config import ConfigError, RewardConfig
from rewards.aepo import format_reward
from rewards.math import grade_answers

Scorer = Callable[[pd.DataFrame], list[float | None]]
ID_COLUMNS = ["id", "slot", "sample"]


class RewardError(RuntimeError):
    """A reward function returned something that is no list of scores."""


class Grader(Protocol):
    """What grades responses. Rows have the columns of their problems, and id, slot, sample and response."""

    def anticipate(self, rows: pd.DataFrame) -> None:
        """Begin with responses that have finished while others are generated."""

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """id, slot, sample, accuracy (null: no score), format, and whatever else the grader knows of each row."""

    def forget(self) -> None:
        """Drop what was kept for equal responses."""

    def close(self) -> None:
        """End whatever was started."""


class FunctionGrader:
    """Grades whole shards with a function: there is nothing to begin early, to keep or to end."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def anticipate(self, rows: pd.DataFrame) -> None:
        """A function grades a shard at once."""

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Accuracy and format of each row. Raises RewardError when the function breaks its contract."""
        return score_rows(self.scorer, rows)

    def forget(self) -> None:
        """Nothing was kept."""

    def close(self) -> None:
        """Nothing was started."""


def load_grader(config: RewardConfig) -> Grader:
    """The grader of a run. Raises ConfigError, and SandboxUnavailable where programs cannot be isolated."""
    if config.kind != "code":
        return FunctionGrader(load_scorer(config))
    from ares.code_grading import CodeGrader

    return CodeGrader(config.code)


def load_scorer(config: RewardConfig) -> Scorer:
    """The function that grades rows (columns of the problem, and `response`). Raises ConfigError."""
    if config.kind == "math":
        return lambda rows: grade_answers(rows["response"].tolist(), rows["answer"].tolist(), config.timeout)
    path, colon, name = config.kind.rpartition(":")
    if not colon:
        raise ConfigError(f"reward.kind={config.kind} is neither `math`, `code` nor path.py:function")
    return _user_function(_load_function(Path(path), name), config.kind)


def score_rows(scorer: Scorer, rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy (None: no score) and format of each row. Raises RewardError when the scorer breaks its contract."""
    scores = scorer(rows)
    if not isinstance(scores, list) or len(scores) != len(rows):
        size = f"{len(scores)} scores" if isinstance(scores, list) else f"a {type(scores).__name__}"
        raise RewardError(f"The reward function returned {size} for {len(rows)} responses; it must return one each")
    for row, score in enumerate(scores):
        if score is not None and not 0.0 <= _number(score) <= 1.0:
            where = f"problem {rows['id'].iloc[row]!r}, sample {rows['sample'].iloc[row]}"
            raise RewardError(
                f"The reward function gave {score!r} to {where}; accuracy is a number in [0, 1] (None: no score)"
            )
    accuracy = pd.array([None if score is None else float(score) for score in scores], dtype="Float64")
    return rows[ID_COLUMNS].assign(accuracy=accuracy, format=[format_reward(response) for response in rows["response"]])


def _number(score: Any) -> float:
    try:
        return float(score)
    except (TypeError, ValueError):
        return math.nan


def _load_function(path: Path, name: str) -> Callable[..., Any]:
    # A name of its own: a file called random.py must not take the library's place.
    name_of_module = f"ares_reward_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name_of_module, path)
    if spec is None or spec.loader is None or not path.exists():
        raise ConfigError(f"reward.kind: there is no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look a class's module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"reward.kind: {path} cannot be loaded: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"reward.kind: {path} has no function {name!r}")
    return function


def _user_function(function: Callable[..., Any], where: str) -> Scorer:
    parameters = inspect.signature(function).parameters
    if "completions" in parameters:
        return lambda rows: function(completions=rows["response"].tolist(), **_columns(rows))
    if "solution_str" in parameters:
        return lambda rows: [_verl_score(function, row) for row in rows.to_dict("records")]
    raise ConfigError(
        f"reward.kind={where}: the function takes neither `completions` (TRL) nor `solution_str` (verl); "
        f"its parameters are {', '.join(parameters)}"
    )


def _columns(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """What TRL passes beside the completions: every column of the data set, one entry a completion."""
    hidden = ("response", "token_ids", "log_probs", "prompt_token_ids", "token_entropies", "canvas")
    columns: dict[str, list[Any]] = {str(name): rows[name].tolist() for name in rows.columns if name not in hidden}
    return columns | {"prompts": rows["prompt"].tolist()}


def _verl_score(function: Callable[..., Any], row: Mapping[Any, Any]) -> float | None:
    score = function(
        data_source=row.get("data_source"),
        solution_str=row["response"],
        ground_truth=row["answer"],
        extra_info=row.get("extra_info"),
    )
    if not isinstance(score, dict):
        return score
    if "score" not in score:
        raise RewardError(f"The reward function returned a dict without 'score' (keys: {', '.join(map(str, score))})")
    return score["score"]
