"""Rows of a step: what was sampled, joined with what graders said of it and with the problems that it answers.

Covered: the joins, the groups that are chosen and the order in which they are trained on. Not covered: what a response
is worth (ares/step/rewards.py), tensors (ares/step/collate.py), reading and writing (tasks/).
"""

import pandas as pd

from ares.data import Problems
from ares.grading import RewardError
from ares.step.slots import SECOND_TURN_SLOT

OF_PROBLEMS = ("prompt", "answer", "prompt_token_ids", "media_references")


def sampled_rows(rollouts: list[pd.DataFrame], problems: Problems) -> pd.DataFrame:
    """Shards of samples as one table, with the prompts and answers of their problems."""
    rows = pd.concat(rollouts, ignore_index=True)
    of_problems = problems.rows(rows["id"].tolist())
    of_problems = of_problems[[name for name in OF_PROBLEMS if name in of_problems]]
    if "prompt" in rows:  # second turns have prompts of their own
        of_problems = rows[["prompt", "prompt_token_ids"]].combine_first(of_problems)
    return rows.drop(columns=["prompt", "prompt_token_ids"], errors="ignore").join(of_problems)


def with_scores(rows: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Samples with what graders said of them, and whether (`truncated`) and where (`tokens`) they were cut off.

    A sample without scores is left out. Raises MergeError when one has two.
    """
    rows = rows.assign(truncated=rows["finish_reason"] == "length", tokens=rows["token_ids"].map(len))
    return rows.merge(scores.drop(columns="id"), on=["slot", "sample"], validate="one_to_one")


def joined_rows(rollouts: list[pd.DataFrame], scores: list[pd.DataFrame], problems: Problems) -> pd.DataFrame:
    """Shards of samples and of scores as one table, with the prompts and answers of their problems."""
    return with_scores(sampled_rows(rollouts, problems), pd.concat(scores, ignore_index=True))


def in_training_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt, then slot and sample: second turns stand behind the first ones of their prompt.

    Both are then in one optimiser step.
    """
    order = rows.assign(prompt_slot=rows["slot"] % SECOND_TURN_SLOT)
    places = order.sort_values(["prompt_slot", "slot", "sample"], kind="stable").index
    return rows.loc[places].reset_index(drop=True)


def scored_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a score. Raises RewardError when there is none: no metric can be made of them."""
    scored = rows[rows["accuracy"].notna()]
    if scored.empty:
        raise RewardError(f"none of the {len(rows)} responses could be graded: see what the reward function reports")
    return scored
