"""The grader of a run: math answers, programs, the weighted sum of functions, or a class from the user's file.

A function that does not apply to a response (None) adds nothing to the sum; if none applies, or one fails, the response
has no score. Not covered: programs (ares/grading/code.py), calling functions (ares/grading/functions.py).
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from ares.config import GRADERS, RewardConfig, part_name
from ares.data import GRADER
from ares.grading.code import CodeGrader
from ares.grading.functions import FunctionScore, UserFunction
from ares.grading.grader import ANSWERED, ID_COLUMNS, Grader, RewardError
from ares.grading.judge import JudgeScorer
from ares.grading.reward_model import RewardModelScorer
from rewards.aepo import format_reward
from rewards.math import BOXED, asked_format, find_answer, grade_answers
from rewards.procedural import SCORER, reasoning_gym
from rewards.thinking import with_opening_tag

SCORE = "score"
"""Column with the reward of a response; `score_NAME` is the score from function NAME."""
EXTRAS = "extras"
"""Column with what functions return besides their scores, as JSON: {"compute_score": {"acc": 1.0}}."""

Scorer = Callable[[pd.DataFrame, bool], list[FunctionScore]]
"""(rows, whether this is the very first call) -> a score for each row."""
SUCCESS = "success"
"""What an environment says of an episode besides its reward; also a column."""
JUDGE = "reward.accuracy"
"""Key, among the scorers, of a function whose scores are accuracies and are not added."""


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
    if "environment" in config.kinds and accuracy is None:
        accuracy = SUCCESS
    if config.kind == "reasoning_gym" and accuracy is None:
        accuracy = config.weight_of[config.kind]  # the reward of a score of 1
    if isinstance(accuracy, str):
        if accuracy in config.kinds:
            accuracy = part_name(accuracy)
        elif config.accuracy_function is not None:
            scorers[JUDGE] = _scorer(config, accuracy, "reward.accuracy", max(config.timeouts))
            accuracy = None
    return FunctionGrader(scorers, config.weight_of, accuracy, config.by_row)


def _scorer(config: RewardConfig, kind: str, setting: str, timeout: float) -> Scorer:
    if kind == "math":
        return lambda rows, first: [FunctionScore(grade) for grade in _grades(rows, config)]
    if kind == "environment":
        return lambda rows, first: environment_scores(rows)
    if kind == "reasoning_gym":
        return ProceduralScorer(config.answer, timeout)
    if kind == "code":
        return CodeGrader(config)
    if kind == "model":
        return RewardModelScorer(config.model)
    if kind == "judge":
        return JudgeScorer(config.judge)
    return UserFunction(GRADERS.implementation(kind), setting, kind, timeout)


def _grades(rows: pd.DataFrame, config: RewardConfig) -> list[float]:
    """1 for each right answer, read where reward.answer says, else where the prompt asks for it."""
    where = [config.answer or asked_format(prompt) or BOXED for prompt in rows["prompt"]]
    return grade_answers(_said(rows), rows["answer"].tolist(), where, config.computed)


def _said(rows: pd.DataFrame) -> list[str]:
    """Responses after the thinking tag that their prompt ends with; an episode's has its tag, or was submitted."""
    if "episode_error" in rows:
        return rows["response"].tolist()
    return [with_opening_tag(*each) for each in zip(rows["prompt"], rows["response"], strict=True)]


def environment_scores(rows: pd.DataFrame) -> list[FunctionScore]:
    """reward.kind=environment: the reward of each episode, and beside it what counts as its success.

    An episode that nothing rewarded is worth its success, 0 if none is told: it may have been cut off before the end.
    """
    worth = rows["episode_reward"].astype(float)
    success = rows["success"].astype("Float64").astype(float)
    worth = worth.fillna(success).fillna(0.0)
    return [
        FunctionScore(reward, {SUCCESS: told})
        for reward, told in zip(worth.tolist(), success.fillna(worth).tolist(), strict=True)
    ]


class MathGrader(Grader):
    """reward.kind=math: compares the response's answer with the row's."""

    def __init__(self, config: RewardConfig) -> None:
        self.config = config

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Accuracy and format of each row."""
        return rows[ID_COLUMNS].assign(
            accuracy=pd.array(_grades(rows, self.config), dtype="Float64"),
            format=list(map(format_reward, _said(rows))),
        )


LAST_LINE, WHOLE = "last_line", r"\A(?i:.*\banswer\s*:)?(.*)\Z"
WORTH = 0.99
"""Least score of a task's reference answer."""


class ProceduralScorer(UserFunction):
    """reward.kind=reasoning_gym: the score of the task's own scorer, in a process with a time limit."""

    def __init__(self, answer: str | None, timeout: float) -> None:
        """answer: where a response's answer stands, as reward.answer has it."""
        super().__init__(reasoning_gym, "reward.kind", f"{SCORER}:{reasoning_gym.__name__}", timeout)
        self.answer = answer

    def __call__(self, rows: pd.DataFrame, first: bool = False) -> list[FunctionScore]:
        """The score of each row's answer: where neither setting nor prompt says where it stands, the last line or, as
        an answer of several lines does, everything. Raises RewardError; first: if the reference answer is not worth 1.
        """
        usual = rows["answer"].str.contains("\n").map({True: WHOLE, False: LAST_LINE})
        asked = zip(rows["prompt"], usual, strict=True)
        places = [self.answer or asked_format(prompt) or place for prompt, place in asked]
        responses = _said(rows)
        if first:
            bare, reference = places[0] in (WHOLE, LAST_LINE), rows["answer"].iloc[0]
            responses[0] = reference if bare else ANSWERED.format(answer=reference)
        found = [find_answer(response, place) or "" for response, place in zip(responses, places, strict=True)]
        scores = super().__call__(rows.assign(response=found), first)
        if first and (scores[0].score or 0.0) < WORTH:
            raise RewardError(
                f"{rows['data_source'].iloc[0]}: its own reference answer is worth {scores[0].score} as responses are "
                f"read ({places[0]}; reward.answer says where an answer stands), so nothing could be learnt from it"
            )
        return scores


class FunctionGrader(Grader):
    """Adds up the scores of functions."""

    def __init__(
        self,
        scorers: dict[str, Scorer],
        weights: dict[str, float],
        accuracy: float | str | None = None,
        by_row: bool = False,
    ) -> None:
        """scorers: by the names of their parts, plus JUDGE if there is one. accuracy: the least reward of a right
        response, or the name of a part; None: JUDGE's score, else that of the only function. by_row: a row's column
        `grader` names the only part that judges it."""
        self.scorers, self.weights, self.accuracy, self.by_row = scorers, weights, accuracy, by_row
        self.programs = next((each for each in scorers.values() if isinstance(each, CodeGrader)), None)

    def expect(self, *problems: pd.DataFrame | None) -> str:
        """As the grader of programs, if there is one, for the rows that it judges."""
        if self.programs is None:
            return ""
        return self.programs.expect(*(frame[frame[GRADER] == "code"] for frame in problems if frame is not None))

    def start(self) -> None:
        """Start the sandbox, if programs are judged."""
        if self.programs is not None:
            self.programs.start()

    def grade(self, rows: pd.DataFrame, first: bool = False) -> pd.DataFrame:
        """accuracy, format, score, score_NAME of each function and, if there are any, extras.

        Raises RewardError if a function raises or breaks its contract.
        """
        with ThreadPoolExecutor(len(self.scorers)) as threads:  # each has a process of its own
            asked = {name: threads.submit(self._ask, name, rows, first) for name in self.scorers}
        said = {name: answers.result() for name, answers in asked.items()}
        added = {name: answers for name, answers in said.items() if name != JUDGE}
        scores = np.array([[np.nan if each.score is None else each.score for each in of] for of in added.values()])
        weighted = np.array([self.weights[name] for name in added])[:, None] * scores
        failed = np.array([[each.failed for each in of] for of in added.values()]).any(0)
        absent = failed | np.isnan(scores).all(0)
        rewards = np.where(absent, np.nan, np.nansum(weighted, 0))
        claimed = self._claim_accuracies(said, rewards)
        accuracy = [None if absent[place] else _check(value, rows, place) for place, value in enumerate(claimed)]
        columns: dict[str, Any] = {
            "accuracy": pd.array(accuracy, dtype="Float64"),
            "format": list(map(format_reward, _said(rows))),
            SCORE: np.where([value is None for value in accuracy], np.nan, rewards),
        } | {f"{SCORE}_{name}": values for name, values in zip(added, scores, strict=True)}
        extras = [
            {name: of[place].extras for name, of in added.items() if of[place].extras} for place in range(len(rows))
        ]
        if any(extras):
            columns[EXTRAS] = [json.dumps(each) if each else None for each in extras]
        return rows[ID_COLUMNS].assign(**columns)

    def try_on(self, rows: pd.DataFrame) -> None:
        """The very first call: functions get more time, and must not fail."""
        self.grade(rows, first=True)

    def _ask(self, name: str, rows: pd.DataFrame, first: bool) -> list[FunctionScore]:
        """A part's scores; none for the rows that another one judges."""
        if not self.by_row or name == JUDGE:
            return self.scorers[name](rows, first)
        own = np.flatnonzero(rows[GRADER] == name)
        scores = [FunctionScore()] * len(rows)
        given = self.scorers[name](rows.iloc[own].reset_index(drop=True), first) if len(own) else []
        for place, score in zip(own, given, strict=True):
            scores[place] = score
        return scores

    def forget(self) -> None:
        """Drop the verdicts of identical programs."""
        if self.programs is not None:
            self.programs.forget()

    def close(self) -> None:
        """End the processes of the user's functions, and the sandbox."""
        for scorer in self.scorers.values():
            if (close := getattr(scorer, "close", None)) is not None:  # comparing answers has nothing to end
                close()

    def _claim_accuracies(self, said: dict[str, list[FunctionScore]], rewards: np.ndarray) -> list[Any]:
        """The accuracy claimed for each response, unchecked."""
        if isinstance(self.accuracy, float):
            return [float(reward >= self.accuracy) for reward in rewards]
        if self.by_row and JUDGE not in said:  # the score of the one that judged it
            return [
                next((one.score for one in of if one.score is not None), None)
                for of in zip(*said.values(), strict=True)
            ]
        parts: dict[str, list[Any]] = {name: [each.score for each in answers] for name, answers in said.items()}
        for answers in said.values():
            for key in dict.fromkeys(key for each in answers for key in each.extras):
                parts.setdefault(key, [each.extras.get(key) for each in answers])
        name = JUDGE if JUDGE in said else self.accuracy or next(iter(said))
        if name in parts:
            return parts[name]
        if all(each.score is None for answers in said.values() for each in answers):
            return [None] * len(rewards)
        raise RewardError(f"reward.accuracy={name}: the parts of the reward are {', '.join(parts)}")


def _check(value: Any, rows: pd.DataFrame, place: int) -> float | None:
    """The value as an accuracy. Otherwise raises RewardError with the setting that derives one from any scale."""
    if value is None or (isinstance(value, int | float) and 0.0 <= value <= 1.0):
        return None if value is None else float(value)
    raise RewardError(
        f"The reward gave {value!r:.80} to problem {rows['id'].iloc[place]!r}, sample {rows['sample'].iloc[place]}; "
        "difficulty buckets, the accuracy filter and pass@k need an accuracy, a number in [0, 1] (None: no score). "
        "Set reward.accuracy=…: the least reward of a right response (0.5), the name of a part, or a function "
        "(path.py:function)"
    )
