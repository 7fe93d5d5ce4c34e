"""The measures a report compares: which MLflow metric, which of its rows, and how they become one number a seed.

A metric that no child has logged (those of code rewards in an ablation on arithmetic) is left out of the report. What
the metrics themselves mean: docs/metrics.md.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from ares.ablations.definition import AREA
from ares.ablations.rows import AblationRows, ChildRows

TAIL = 0.25
"""Share of the steps, the last ones, over which noisy metrics are averaged."""
ERRORS = ("accepted", "wrong_answer", "runtime_error", "timeout", "memory", "output_limit", "syntax_error", "truncated")
"""Verdicts of samples."""
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


def list_measures(primary: str, logged: Iterable[str]) -> list[Measure]:
    """The measures of a report for which there are metrics, the primary one first."""
    logged = set(logged)
    metric = primary.removeprefix(AREA)
    first = [Measure(metric, metric, "last"), Measure(metric, f"{metric}, over tokens", "area")]
    rest = [
        Measure("val/accuracy", "held-out accuracy", "last"),
        Measure("val/pass_ratio", "held-out share of tests passed", "last"),
        Measure("val/pass_at_n", "held-out best of n", "last"),
        Measure("val/reward", "held-out reward", "last"),
        Measure("val/response_length", "held-out response length (tokens)", "last", 1),
        *_match(r"val/(.+)/accuracy", "held-out accuracy, {}", "last", logged),
        *_match(r"val/(.+)/response_length", "held-out response length, {} (tokens)", "last", logged, 1),
        *_match(r"val/rewards/(.+)/mean", "held-out reward {}", "last", logged),
        Measure("reward/sampled_accuracy", "training accuracy", "tail"),
        Measure("reward/score", "training reward", "tail"),
        *_match(r"rewards/(.+)/mean", "training reward {}", "tail", logged),
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
        *(Measure(f"code/error/{name}", f"share of {name.replace('_', ' ')}", "tail") for name in ERRORS),
    ]
    rest = [measure for measure in rest if (measure.metric, measure.how) != (metric, "last")]
    return [*(reversed(first) if primary.startswith(AREA) else first),
            *(measure for measure in rest if measure.metric in logged)]  # fmt: skip


def _match(pattern: str, title: str, how: How, logged: Iterable[str], digits: int = 3) -> list[Measure]:
    """A measure for each metric of a held-out set or of a reward function."""
    matches = [(name, re.fullmatch(pattern, name)) for name in sorted(logged)]
    return [Measure(name, title.format(of[1]), how, digits) for name, of in matches if of]


def weigh(measure: Measure, child: ChildRows, last: int, tokens: float | None = None) -> pd.Series:
    """The weight of each of a child's rows in its number at step `last`, by step; empty if rows are missing or one of
    them is not finite.

    tokens: up to which an area reaches.
    """
    rows = child.rows.get(measure.metric, pd.Series(dtype=float)).loc[:last]
    first = {"last": last, "mean": 1, "tail": last - max(1, round(last * TAIL)) + 1}
    rows = rows.loc[first.get(measure.how, 0) :]
    if rows.empty or not np.isfinite(rows).all():
        return pd.Series(dtype=float)
    if measure.how == "area":
        return weigh_area(pd.Series({step: child.tokens_at(step) for step in rows.index}), tokens or 0.0)
    return pd.Series(1.0 if measure.how == "sum" else 1 / len(rows), rows.index)


def weigh_area(tokens: pd.Series, limit: float) -> pd.Series:
    """Weights of values in their mean over tokens, from the first value's token count to `limit` (trapezoid rule).

    Empty if `limit` is not beyond the first value.
    """
    if not limit > tokens.iloc[0]:
        return pd.Series(dtype=float)
    start, lengths = tokens.to_numpy()[:-1], np.diff(tokens)
    within = np.clip(limit - start, 0, lengths)
    of_end = within**2 / np.where(lengths > 0, 2 * lengths, 1.0)
    weights = np.append(within - of_end, 0.0) + np.append(0.0, of_end)
    return pd.Series(weights / (min(limit, tokens.iloc[-1]) - tokens.iloc[0]), tokens.index)


def find_last_step(ablation: AblationRows) -> int | None:
    """The step at which children are compared: the last at which any child has the compared metric."""
    metric = ablation.definition.metric
    return max((int(child.rows[metric].index[-1]) for child in ablation.children if metric in child.rows), default=None)


def find_finished(ablation: AblationRows) -> list[tuple[ChildRows, int]]:
    """The children that can be compared, by variant and seed, with the step at which each is: `find_last_step`, or the
    step that reached the budget of tokens."""
    metric, budget, last = ablation.definition.metric, ablation.definition.equal_tokens, find_last_step(ablation)
    ends = [(child, int(child.rows[metric].index[-1])) for child in ablation.children if metric in child.rows]
    return [(child, end) for child, end in ends if (end == last if budget is None else child.tokens_at(end) >= budget)]


def find_compared_tokens(ablation: AblationRows) -> float | None:
    """The number of sampled tokens at which areas end: the budget, else what every compared child has reached."""
    if ablation.definition.equal_tokens is not None:
        return float(ablation.definition.equal_tokens)
    return min((child.tokens_at(end) for child, end in find_finished(ablation)), default=None)
