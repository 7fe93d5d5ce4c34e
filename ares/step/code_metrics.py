"""Metrics of a step's programs: how they ended, what passed, the cost of a solved problem; overall and per bucket.

Covered: every sample that was drawn, before filtering, since dropped samples cost as much. Not covered: the batch that
is trained on (ares/step/shape.py), the held-out set (tasks/training.py: evaluate).
"""

import numpy as np
import pandas as pd

from algorithms.buckets import BUCKETS
from algorithms.difficulty import difficulty_codes
from ares.step.slots import SECOND_TURN_SLOT
from sandbox.program import ERROR_TYPES

ENDINGS = tuple(ending for ending in ERROR_TYPES if ending != "internal_error")
"""How a program can end. One that the sandbox failed to judge has no ending and is not counted here."""


def ending_shares(rows: pd.DataFrame) -> dict[str, float]:
    """Share of each ending, as error/TYPE; a truncated response that did not pass counts as truncated only."""
    cut = rows["truncated"].astype(bool) & (rows["pass_ratio"].astype(float) < 1.0)
    endings = rows["error_type"].mask(cut, "truncated")
    return {f"error/{ending}": float((endings == ending).mean()) for ending in ENDINGS}


def code_metrics(rows: pd.DataFrame, kept_slots: list[int]) -> dict[str, float]:
    """`code/…` and `bucket/{easy,medium,hard}/code/…` of a step's rows.

    rows: slot, accuracy, pass_ratio, error_type, truncated, tokens and, if known, trusted. A group's bucket is that of
    its mean accuracy. Costs per solved problem are missing if none was solved. code/untrusted is the share of programs
    with tests that ran in the program's own process.
    """
    scored = rows[rows["pass_ratio"].notna()]
    untrusted = {"code/untrusted": float((~rows["trusted"].astype(bool)).mean())} if "trusted" in rows else {}
    if scored.empty:
        return untrusted
    metrics = untrusted | {f"code/{name}": value for name, value in _figures(scored).items()}
    groups = scored["accuracy"].astype(float).groupby(scored["slot"]).mean()
    codes = pd.Series(difficulty_codes(groups.to_numpy()), index=groups.index)
    for code, bucket in enumerate(BUCKETS):
        slots = codes.index[codes == code]
        if len(slots):
            figures = _figures(scored[scored["slot"].isin(slots)])
            figures["kept_share"] = float(np.isin(slots, kept_slots).mean())
            metrics |= {f"bucket/{bucket}/code/{name}": value for name, value in figures.items()}
    return metrics


def seconds_per_solved(rows: pd.DataFrame, seconds: float) -> dict[str, float]:
    """CPU seconds of programs per problem that at least one sample solved, in either turn; nothing if none did."""
    solved = _solved(rows)
    return {"perf/seconds_per_solved": seconds / solved} if solved else {}


def _figures(rows: pd.DataFrame) -> dict[str, float]:
    ratio = rows["pass_ratio"].astype(float)
    figures = {
        "pass_at_1": float((ratio == 1.0).mean()),
        "pass_ratio": float(ratio.mean()),
        "timeout_rate": float((rows["error_type"] == "timeout").mean()),
        **ending_shares(rows),
    }
    solved = _solved(rows)
    if solved:
        figures["cost/tokens_per_solved"] = float(rows["tokens"].sum()) / solved
    return figures


def _solved(rows: pd.DataFrame) -> int:
    solved = rows.loc[rows["pass_ratio"] == 1.0, "slot"]
    return int((solved % SECOND_TURN_SLOT).nunique())
