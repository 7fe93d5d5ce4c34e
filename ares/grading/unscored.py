"""How many samples may lack a score before a run stops: one problem that cannot be graded must not end it, and a grader
that is down must not lead to an empty step.

Covered: the rule. Not covered: what happens to samples without a score (they are left out of every metric and of their
group; a group with fewer than two left is replaced).
"""

import pandas as pd

from ares.grading.grader import RewardError


def check_scored(rows: pd.DataFrame, limit: float, what: str) -> None:
    """Raise RewardError if no response has a score, or more than the share `limit`, of several problems, has none.

    rows: id and accuracy (null: no score) of everything drawn so far; what: its name, for the message.
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
