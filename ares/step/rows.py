"""Rows of a step: samples, numbered by slot (group) and sample within it, joined with their grades and problems.

    slot 3              sample 0 1 2 3        one prompt's responses; sample −1: the greedy answer (ReMax)
    slot 1,000,000,003  sample 4 5            second turns of its failed sample 2, two children: 2·2, 2·2 + 1
    slot   500,000,003  sample 0              held-out problem 3, drawn once more in few passes (validation.few_steps)

Covered: the numbers, the joins, the order of training. Not covered: rewards (ares/step/rewards.py), tensors
(ares/step/collate.py), reading and writing (tasks/).
"""

import numpy as np
import pandas as pd

from algorithms.groups import SECOND_TURN_SLOT
from ares.data import Problems
from ares.grading import RewardError

GREEDY = -1
"""Sample number of the greedy answer that ReMax compares with."""
FEW_STEPS_SLOT = 500_000_000
"""Held-out samples of slot s drawn in few passes (validation.few_steps) have slot s + FEW_STEPS_SLOT."""
SAMPLED = "sampled"
"""Column of episodes: for each token after the prompt whether the policy sampled it (bool). Without it, it did."""
OF_PROBLEMS = ("prompt", "answer", "prompt_token_ids", "media_references")


def is_second_turn(rows: pd.DataFrame) -> pd.Series:
    """Which rows are second turns."""
    return rows["slot"] >= SECOND_TURN_SLOT


def sampled_rows(rollouts: list[pd.DataFrame], problems: Problems) -> pd.DataFrame:
    """Shards of samples as one table, with the prompts and answers of their problems."""
    rows = pd.concat(rollouts, ignore_index=True)
    of_problems = problems.rows(rows["id"].tolist())
    of_problems = of_problems[[name for name in OF_PROBLEMS if name in of_problems]]
    if "prompt" in rows:  # second turns have prompts of their own
        of_problems = rows[["prompt", "prompt_token_ids"]].combine_first(of_problems)
    return rows.drop(columns=["prompt", "prompt_token_ids"], errors="ignore").join(of_problems)


def with_scores(rows: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Samples with their grades, length (`tokens`: sampled ones), and whether they were cut off (`truncated`).

    A sample without a row of grades is left out. Raises MergeError if one has two.
    """
    tokens = rows[SAMPLED].map(np.sum) if SAMPLED in rows else rows["token_ids"].map(len)
    rows = rows.assign(truncated=rows["finish_reason"] == "length", tokens=tokens)
    return rows.merge(scores.drop(columns="id"), on=["slot", "sample"], validate="one_to_one")


def sampled_log_probs(rows: pd.DataFrame) -> np.ndarray:
    """The engine's log-probs of every token that was sampled, row after row: [N] float32."""
    known = np.concatenate(rows["log_probs"].tolist())
    return known[np.concatenate(rows[SAMPLED].tolist())] if SAMPLED in rows else known


def joined_rows(rollouts: list[pd.DataFrame], scores: list[pd.DataFrame], problems: Problems) -> pd.DataFrame:
    """Shards of samples and of scores as one table, with the prompts and answers of their problems."""
    return with_scores(sampled_rows(rollouts, problems), pd.concat(scores, ignore_index=True))


def in_training_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by prompt, then slot and sample: second turns follow the first turns of their prompt.

    So both are in the same optimiser step.
    """
    rows = rows.sort_values(["slot", "sample"])
    return rows.sort_values("slot", key=lambda slot: slot % SECOND_TURN_SLOT, kind="stable", ignore_index=True)


def scored_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with an accuracy. Raises RewardError if there are none, since metrics need some."""
    scored = rows[rows["accuracy"].notna()]
    if scored.empty:
        raise RewardError(f"none of the {len(rows)} responses could be graded: see what the reward function reports")
    return scored
