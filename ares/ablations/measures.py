"""The measures a report compares: which MLflow metric, which of its rows, and how they become one number a seed.

A metric that no child has logged (those of code rewards in an ablation on arithmetic) is left out of the report. What
the metrics themselves mean: docs/metrics.md.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from ares.ablations.definition import AREA
from ares.ablations.rows import TOKENS, AblationRows, ChildRows

TAIL = 0.25
"""Share of the steps, the last ones, over which noisy metrics are averaged."""
How = Literal["last", "tail", "mean", "sum", "area"]
RULES: dict[How, str] = {
    "last": "value at the last step",
    "tail": f"mean over the last {TAIL:.0%} of steps",
    "mean": "mean over all steps",
    "sum": "sum over all steps",
    "area": "mean over sampled tokens",
}
"""How rows become one number."""


@dataclass(frozen=True)
class Measure:
    """One line of the report's tables."""

    metric: str
    title: str
    how: How
    digits: int = 3


EXPLORED = (
    Measure("val/accuracy", "held-out accuracy", "last"),
    Measure("val/pass_ratio", "held-out share of tests passed", "last"),
    Measure("val/pass_at_n", "held-out best of n", "last"),
    Measure("val/reward", "held-out reward", "last"),
    Measure("val/response_length", "held-out response length (tokens)", "last", 1),
    Measure("val/(.+)/accuracy", "held-out accuracy, {}", "last"),
    Measure("val/(.+)/response_length", "held-out response length, {} (tokens)", "last", 1),
    Measure("val/rewards/(.+)/mean", "held-out reward {}", "last"),
    Measure("reward/sampled_accuracy", "training accuracy", "tail"),
    Measure("reward/score", "training reward", "tail"),
    Measure("rewards/(.+)/mean", "training reward {}", "tail"),
    Measure("code/pass_ratio", "training share of tests passed", "tail"),
    Measure("filter/kept_share", "groups kept by the filter", "mean"),
    Measure("code/cost/tokens_per_solved", "tokens per solved problem", "tail", 1),
    Measure("perf/seconds_per_solved", "CPU seconds of programs per solved problem", "tail", 4),
    Measure("code/timeout_rate", "timeouts", "tail"),
    Measure("response_length/mean", "response length (tokens)", "tail", 1),
    Measure("entropy/mean", "token entropy (nats)", "tail"),
    Measure("critic/kl", "KL to the reference (nats a token)", "tail", 4),
    Measure("perf/scoring_wait_share", "time waiting for verdicts", "mean", 4),
    Measure("perf/total_num_tokens", "tokens sampled", "sum", 0),
    Measure("timing_s/step", "time in steps (s)", "sum", 1),
    Measure("code/error/(.+)", "share of samples with outcome {}", "tail"),
)
"""What a report shows besides the primary metric. A metric is a pattern, whose group is named in the title."""


def list_measures(primary: str, logged: Iterable[str]) -> list[Measure]:
    """The measures of a report for which there are metrics, the primary one first."""
    metric = primary.removeprefix(AREA)
    first = [Measure(metric, metric, "last"), Measure(metric, f"{metric}, over tokens", "area")]
    found = [(each, re.fullmatch(each.metric, name)) for each in EXPLORED for name in sorted(logged)]
    rest = [replace(each, metric=of[0], title=each.title.format(*of.groups())) for each, of in found if of]
    return [*(reversed(first) if primary.startswith(AREA) else first),
            *(each for each in rest if (each.metric, each.how) != (metric, "last"))]  # fmt: skip


def find_primary(ablation: AblationRows) -> Measure:
    """The primary measure."""
    return list_measures(ablation.definition.primary, [])[0]


def weigh(measure: Measure, child: ChildRows, last: int, tokens: float | None = None) -> pd.Series:
    """The weight of each of a child's rows in its number at step `last`, by step; empty if there are none.

    tokens: up to which an area reaches.
    """
    first = {"last": last, "mean": 1, "tail": last - max(1, round(last * TAIL)) + 1}
    rows = child.rows.get(measure.metric, pd.Series(dtype=float)).loc[first.get(measure.how, 0) : last].dropna()
    if rows.empty:
        return rows
    if measure.how == "area":
        return weigh_area(pd.Series({step: child.tokens_at(step) for step in rows.index}), tokens or 0.0)
    return pd.Series(1.0 if measure.how == "sum" else 1 / len(rows), rows.index)


def weigh_area(tokens: pd.Series, limit: float) -> pd.Series:
    """Weights of values in their mean over tokens, from the first value's token count to `limit` (trapezoid rule).

    Empty if `limit` is not beyond the first value.
    """
    if not limit > tokens.iloc[0]:
        return pd.Series(dtype=float)
    within = tokens.clip(upper=limit)
    areas = [np.trapezoid(np.interp(within, tokens, unit), within) for unit in np.eye(len(tokens))]
    return pd.Series(areas, tokens.index) / (within.iloc[-1] - within.iloc[0])


def find_last_step(ablation: AblationRows) -> int | None:
    """The step at which children are compared: the last at which any child has the compared metric."""
    rows = [child.rows.get(ablation.definition.metric, pd.Series(dtype=float)) for child in ablation.children]
    return max((int(step) for each in rows for step in each.dropna().index), default=None)


def find_finished(ablation: AblationRows) -> list[tuple[ChildRows, int]]:
    """The children that can be compared, by variant and seed, with the step at which each is: `find_last_step`, or the
    first step that reached the budget of tokens."""
    budget, last = ablation.definition.equal_tokens, find_last_step(ablation)
    if budget is None:
        return [(child, last) for child in ablation.children if last is not None and child.rows.index.max() >= last]
    tokens = [(child, child.rows[TOKENS].cumsum()) for child in ablation.children if TOKENS in child.rows]
    return [(child, int(of.index[of >= budget][0])) for child, of in tokens if (of >= budget).any()]


def find_compared_tokens(ablation: AblationRows) -> float | None:
    """The number of sampled tokens at which areas end: the budget, else what every compared child has reached."""
    if ablation.definition.equal_tokens is not None:
        return float(ablation.definition.equal_tokens)
    return min((child.tokens_at(end) for child, end in find_finished(ablation)), default=None)
