"""Reward functions of the user: `path.py:function` with TRL's signature f(completions, **columns) or verl's
compute_score(data_source, solution_str, ground_truth, extra_info).

Covered: loading the file, calling the function in its own way. Not covered: checking what it returns
(ares/grading/grader.py).
"""

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from ares.config import ConfigError
from ares.grading.grader import RewardError, Scorer


def load_function(path: Path, name: str) -> Callable[..., Any]:
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


def user_function(function: Callable[..., Any], where: str) -> Scorer:
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
