"""The interface of graders: rows in; for each row, accuracy and whatever else the grader knows of it out.

A sample that cannot be graded has no score (None), never zero. Covered: the rows that graders are given, their first
call before a run is created, how many samples may lack a score before a run stops. Not covered: what accuracy is used
for (ares/step), what becomes of samples without a score (they are left out of every metric and of their group; a group
with fewer than two left is replaced).
"""

from abc import ABC, abstractmethod

import pandas as pd
from transformers import PreTrainedTokenizerBase

from ares.data import GRADER, OWN, Problems
from ares.errors import UserError
from rewards.math import answer_text

ID_COLUMNS = ["id", "slot", "sample"]
OF_PROMPTS = ("id", "prompt", "prompt_token_ids")
"""Columns that samples take from their problems; second turns have their own."""
STEP = "training_step"
"""Column with the number of training steps done before a row was sampled."""
ANSWERED = "<answer>\\boxed{{{answer}}}</answer>\n#### {answer}\nAnswer: {answer}"
"""A response with the answer in the places where rewards look for it."""
RIGHT = "<think>\nIt is {answer}.\n</think>\n" + ANSWERED


class RewardError(UserError, RuntimeError):
    """A reward function raised, or returned something other than a list of scores."""

    def __init__(self, message: str, may_pass: bool = False) -> None:
        """may_pass: whether the same call may succeed later, as when a service is down: then it is retried."""
        super().__init__(message)
        self.may_pass = may_pass


class Grader(ABC):
    """Grades responses. Rows have the columns of their problems, and id, slot, sample and response."""

    by_row = False
    """Whether a row's column `grader` says how it is graded."""

    def expect(self, *problems: pd.DataFrame | None) -> str:
        """Called with all problems before start(). Returns what on this machine affects its grades ("": nothing)."""
        return ""

    def start(self) -> None:  # noqa: B027 (most graders need nothing)
        """Start what it needs besides this process; before that nothing runs and nothing is rented."""

    def anticipate(self, rows: pd.DataFrame) -> None:  # noqa: B027 (most grade a shard at once)
        """Start on responses that have finished while others are being generated."""

    @abstractmethod
    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """id, slot, sample, accuracy in [0, 1] (null: no score), format, and what else the grader knows of each row.

        A column `score`, on any scale, is the reward of a response; without it, its accuracy is.
        """

    def try_on(self, rows: pd.DataFrame) -> None:
        """Grade rows before a run is created. Raises RewardError if the grades cannot be trained on."""
        check_grades(self.grade(rows), rows)

    def forget(self) -> None:  # noqa: B027 (most keep nothing)
        """Drop what was kept for identical responses."""

    def close(self) -> None:  # noqa: B027 (most started nothing)
        """Stop whatever was started."""


def answered(sampled: pd.DataFrame, problems: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Rows as graders are given them: samples drawn after `steps` training steps, with the columns of their problems.

    A data set may have columns called response or sample: the policy's keep the name.
    """
    twice = [name for name in sampled if name in problems]
    problems = problems.drop(columns=[name for name in ("prompt_token_ids", *twice) if name in OF_PROMPTS])
    own = {name: f"{OWN}{name}" for name in twice if name not in OF_PROMPTS}
    return sampled.join(problems.rename(columns=own)).assign(**{STEP: steps})


def try_on(grader: Grader, problems: Problems, tokenizer: PreTrainedTokenizerBase) -> None:
    """Have a grader grade the first problem's answer (by_row: of each kind) and an empty response to the second, as a
    policy's may be.

    Called before a run is created, so that a mistake in a user's grader costs seconds. The policy's own responses would
    need the model loaded and a run's Ray; what only they reveal shows in the bootstrap's first shard. Raises
    RewardError.
    """
    whole = problems.frame
    firsts = whole[~whole[GRADER].astype(str).duplicated()] if grader.by_row else whole.head(1)
    frame = pd.concat([firsts, whole.iloc[[min(1, len(whole) - 1)]]], ignore_index=True)
    answers = firsts["answer"] if "answer" in firsts else ["42"] * len(firsts)
    texts = [*(RIGHT.format(answer=answer_text(answer)) for answer in answers), ""]
    sampled = pd.DataFrame({"id": frame["id"], "slot": range(len(frame)), "sample": 0, "response": texts,
                            "finish_reason": "stop"})  # fmt: skip
    token_ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    episode = {"episode_reward": 0.0, "success": None, "episode_error": ""}  # of an environment, if there is one
    try:
        grader.try_on(answered(sampled.assign(token_ids=token_ids, **episode), frame, 0))
    except RewardError as error:
        raise RewardError(
            f"First call, with {len(frame)} responses to problems of {problems.source}: {error}"
        ) from None


def check_grades(table: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Raise RewardError if a grader's table has other rows than those given, lacks columns or has wrong accuracies."""
    places = ["slot", "sample"]
    if (
        not {*ID_COLUMNS, "accuracy", "format"} <= {*table}
        or sorted(table[places].to_numpy().tolist()) != sorted(rows[places].to_numpy().tolist())
        or not table["accuracy"].dropna().astype(float).between(0.0, 1.0).all()
    ):
        raise RewardError(
            f"The grader returned {len(table)} rows with {', '.join(map(str, table))} for {len(rows)} responses; each "
            "has id, slot and sample as given, a format, and an accuracy in [0, 1] (null: no score); a reward on "
            "another scale goes into the column `score`"
        )


def grade_rows(grader: Grader, rows: pd.DataFrame) -> pd.DataFrame:
    """A grader's table of `answered` rows, checked. An episode whose environment failed has no score, whatever was
    said in it: the policy could not finish it. Raises RewardError."""
    scores = grader.grade(rows)
    check_grades(scores, rows)
    if "episode_error" not in rows:
        return scores
    broken = rows.loc[rows["episode_error"] != "", ["slot", "sample"]]
    is_broken = pd.MultiIndex.from_frame(scores[["slot", "sample"]]).isin(pd.MultiIndex.from_frame(broken))
    if is_broken.any():
        scores = scores.copy()
        for name in scores:
            if name in ("accuracy", "pass_ratio") or str(name).startswith("score"):
                scores[name] = scores[name].where(~is_broken, None)
        if "error_type" in scores:
            scores["error_type"] = scores["error_type"].mask(is_broken, "internal_error")
    return scores


def check_scored(rows: pd.DataFrame, limit: float, what: str) -> None:
    """Raise RewardError if no response has a score, or more than the share `limit`, of several problems, has none.

    One problem that cannot be graded must not end a run, and a grader that is down must not lead to an empty step.
    rows: id and accuracy (null: no score) of everything drawn so far; what: its name, for the message.
    """
    missing = rows["accuracy"].isna()
    problems = rows["id"][missing].nunique()
    if not len(rows) or not (missing.all() or (missing.mean() > limit and problems > 1)):
        return
    raise RewardError(
        f"{what}: {missing.sum()} of {len(rows)} responses, of {problems} problems, have no score: the grader failed "
        "or took longer than reward.timeout, or environments failed (the log says which). Start the run again once it "
        f"works: they are graded anew. reward.max_unscored={limit} is the share above which a run stops."
    )
