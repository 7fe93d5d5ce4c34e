"""How much of a draw may be without a score before a run stops: one problem that nobody can grade must not end it, a
grader that is down must not become an empty step.

Covered: the rule. Not covered: what is done with samples that have no score (they are left out of every figure and of
their group; a group of which fewer than two are left is replaced).
"""

import pandas as pd

from ares.grading.grader import RewardError


def check_scored(rows: pd.DataFrame, limit: float, what: str) -> None:
    """Raise RewardError where all responses, or more than the share `limit` and of several problems, have no score.

    rows: id and accuracy (null: no score) of everything that was drawn so far; what: its name, for the message.
    """
    missing = rows["accuracy"].isna()
    problems = rows["id"][missing].nunique()
    if not len(rows) or not (missing.all() or (missing.mean() > limit and problems > 1)):
        return
    raise RewardError(
        f"{what}: {missing.sum()} of {len(rows)} responses, of {problems} problems, have no score: the grader failed "
        "or took longer than reward.timeout (the log says which). Start the run again once it works: they are graded "
        f"anew. reward.max_unscored={limit} is the share above which a run stops."
    )
