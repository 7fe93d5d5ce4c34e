"""The numbers that a report compares: which metric, which of its rows, how they become one number a seed, and their
differences from the baseline, paired by seed.

A metric that no child has logged (those of code rewards in an ablation on arithmetic) is left out of the report. What
the metrics themselves mean: docs/metrics.md. Not covered: the statistics (ares/ablations/statistics.py), what is said
of them (ares/ablations/wording.py).
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from ares.ablations.definition import AREA
from ares.ablations.rows import CHILD, AblationRows
from ares.ablations.statistics import Differences, add_problems_test, add_skew_test, pair

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


def find_numbers(ablation: AblationRows, measure: Measure) -> pd.Series:
    """The number of each finished child that has one, by variant and seed."""
    weights = weigh(ablation, measure)
    values = ablation.rows.reindex(columns=[measure.metric])[measure.metric]
    return (values.loc[weights.index] * weights).groupby(CHILD, sort=False).sum()


def weigh(ablation: AblationRows, measure: Measure) -> pd.Series:
    """The weight of each row in the number of its child, by variant, seed and step; of finished children alone."""
    rows = cut_rows(ablation)
    steps = rows.index.get_level_values("step").to_series(rows.index)
    last = steps.groupby(CHILD).transform("max")
    tail = last - (last * TAIL).round().clip(lower=1) + 1
    first: Any = {"last": last, "mean": 1, "tail": tail}.get(measure.how, 0)
    values = rows.reindex(columns=[measure.metric])[measure.metric][steps >= first].dropna()
    if measure.how != "area":
        counts = values.groupby(CHILD).transform("size")
        return pd.Series(1.0, values.index) if measure.how == "sum" else 1 / counts
    tokens, limit = ablation.tokens.loc[values.index], find_compared_tokens(ablation) or 0.0
    return pd.concat([values[:0], *(weigh_area(of, limit) for _, of in tokens.groupby(CHILD, sort=False))])


def weigh_area(tokens: pd.Series, limit: float) -> pd.Series:
    """Weights of values in their mean over tokens, from the first value's token count to `limit` (trapezoid rule).

    Empty if `limit` is not beyond the first value.
    """
    if not min(limit, tokens.iloc[-1]) > tokens.iloc[0]:
        return tokens[:0]
    within = tokens.clip(upper=limit)
    widths = np.diff(within, prepend=within.iloc[0], append=within.iloc[-1])
    areas = pd.Series((widths[:-1] + widths[1:]) / 2, tokens.index)
    beyond = int(np.searchsorted(tokens, limit))
    if beyond < len(tokens):  # the value at the limit lies between those of two steps
        share = (limit - tokens.iloc[beyond - 1]) / (tokens.iloc[beyond] - tokens.iloc[beyond - 1])
        areas.iloc[beyond - 1] += (1 - share) * areas.iloc[beyond]
        areas.iloc[beyond] *= share
    return areas / (within.iloc[-1] - within.iloc[0])


def find_last_step(ablation: AblationRows) -> int | None:
    """The step at which children are compared: the last at which any child has the compared metric."""
    rows = ablation.rows.reindex(columns=[ablation.definition.metric]).dropna()
    return max((int(step) for step in rows.index.get_level_values("step")), default=None)


def cut_rows(ablation: AblationRows) -> pd.DataFrame:
    """The rows of the children that can be compared, up to the step at which each is: `find_last_step`, or the first
    step that reached the budget of tokens."""
    rows, budget, last = ablation.rows, ablation.definition.equal_tokens, find_last_step(ablation)
    steps = rows.index.get_level_values("step").to_series(rows.index)
    is_over = steps >= (math.inf if last is None else last) if budget is None else ablation.tokens >= budget
    return rows[steps <= steps.where(is_over).groupby(CHILD).transform("min")]


def find_compared_tokens(ablation: AblationRows) -> float | None:
    """The number of sampled tokens at which areas end: the budget, else what every compared child has reached."""
    if ablation.definition.equal_tokens is not None:
        return float(ablation.definition.equal_tokens)
    reached = ablation.tokens.loc[cut_rows(ablation).index].groupby(CHILD).max()
    return None if reached.empty else float(reached.min())


def compare(ablation: AblationRows, measure: Measure) -> Differences:
    """Every variant that has a seed in common with the baseline, against it.

    A metric that was named beforehand also gets the second test of ares/ablations/statistics.py.
    """
    against = ablation.definition.against
    differences = _subtract_baseline(ablation, find_numbers(ablation, measure))
    found = {variant: pair(of.tolist()) for variant, of in differences.items()}
    if measure in (find_primary(ablation), *list_margin_measures(ablation)):
        by_problem = split_by_problem(ablation, measure)
        for variant, of in differences.items():
            one, other = (by_problem.reindex([(name, seed) for seed in of.index]) for name in (variant, against))
            table = (one - other.to_numpy()).dropna(axis=1).sort_index(axis=1).to_numpy()
            if table.shape[1] > 1 and found[variant].p is not None:
                key = (ablation.definition.name, measure.metric, measure.how, variant)
                found[variant] = add_problems_test(found[variant], table, key)
            else:
                found[variant] = add_skew_test(found[variant])
    return Differences(against, found, len(ablation.definition.variants) - 1)


def list_margin_measures(ablation: AblationRows) -> list[Measure]:
    """The measures of `no_worse`."""
    return [Measure(metric, metric, "last") for metric in ablation.definition.no_worse]


def compare_changes(ablation: AblationRows, interaction: tuple[str, str]) -> Differences:
    """Of every variant with both metrics: ln(variant / baseline) of the first one, less that of the second."""
    changes = []
    for metric in interaction:
        numbers = find_numbers(ablation, Measure(metric, metric, "last"))
        changes.append(_subtract_baseline(ablation, np.log(numbers[numbers > 0])))
    first, second = changes
    differences = {variant: (first[variant] - second[variant]).dropna() for variant in first if variant in second}
    found = {variant: add_skew_test(pair(of.tolist())) for variant, of in differences.items() if len(of)}
    return Differences(ablation.definition.against, found, len(ablation.definition.variants) - 1)


def _subtract_baseline(ablation: AblationRows, numbers: pd.Series) -> dict[str, pd.Series]:
    """Each variant's differences by seed, for the seeds that it and the baseline have, if there are any."""
    against = ablation.definition.against
    of_each = {str(variant): of.droplevel("variant") for variant, of in numbers.groupby("variant", sort=False)}
    if against not in of_each:
        return {}
    baseline = of_each.pop(against)
    return {variant: known for variant, of in of_each.items() if len(known := of.sub(baseline).dropna())}


def split_by_problem(ablation: AblationRows, measure: Measure) -> pd.DataFrame:
    """The number of each child for each held-out problem, by variant and seed; NaN where some of its rows are not known
    by problem.

    Behind `val/accuracy` are all problems, behind `val/SET/accuracy` those called `SET/…`.
    """
    of_set = measure.metric.removeprefix("val/").removesuffix("accuracy")
    weights = weigh(ablation, measure)
    is_accuracy = measure.metric == f"val/{of_set}accuracy"
    behind = [name for name in ablation.problems if is_accuracy and str(name).startswith(of_set)]
    problems = ablation.problems[behind].reindex(weights.index)
    return problems.mul(weights, axis=0).groupby(CHILD).sum(skipna=False)
