"""The measures a report compares: which MLflow metric, which of its rows, and how they become one number a seed.

A metric that no child has logged (those of code rewards in an ablation on arithmetic) is left out of the report. What
the metrics themselves mean: docs/metrics.md.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ares.ablations.definition import AREA
from ares.ablations.rows import AblationRows, ChildRows, Row

TAIL = 0.25
"""Share of the steps, the last ones, over which noisy metrics are averaged."""

ERRORS = ("accepted", "wrong_answer", "runtime_error", "timeout", "memory", "output_limit", "syntax_error", "truncated")
"""Verdicts of samples, in the order in which their areas are stacked."""


@dataclass(frozen=True)
class Measure:
    """One line of the report's table. Without `better`, a measure is reported but not ranked."""

    metric: str
    title: str
    how: Literal["last", "rise", "tail", "mean", "sum", "area"]
    better: Literal["more", "less"] | None = None
    digits: int = 3

    @property
    def rule(self) -> str:
        """How its rows become one number."""
        return {
            "last": "value at the last step",
            "rise": "mean over the evaluations after the start",
            "tail": f"mean over the last {TAIL:.0%} of steps",
            "mean": "mean over all steps",
            "sum": "sum over all steps",
            "area": "mean over sampled tokens",
        }[self.how]


@dataclass(frozen=True)
class Value:
    """A measure of one child, and the rows it was computed from."""

    child: ChildRows
    value: float
    rows: list[Row]
    weights: list[float] | None = None
    """Weight of each row, unless all count equally."""


def measures(metric: str, maximise: bool, logged: Iterable[str] = ()) -> list[Measure]:
    """Every measure of a report, the primary one (`metric`) first; logged: all metrics, to find those of held-out sets
    and reward functions."""
    better: Literal["more", "less"] = "more" if maximise else "less"
    logged_as = metric.removeprefix(AREA)
    first = [
        Measure(logged_as, logged_as, "last", better),
        Measure(logged_as, f"{logged_as}, over tokens", "area", better),
        Measure(logged_as, f"{logged_as}, on the way", "rise", better),
    ]
    first.sort(key=lambda measure: metric.startswith(AREA) and measure.how != "area")
    metric = logged_as
    rest = [
        Measure("val/accuracy", "held-out accuracy", "last", "more"),
        Measure("val/pass_ratio", "held-out share of tests passed", "last", "more"),
        Measure("val/pass_at_n", "held-out best of n", "last", "more"),
        Measure("val/reward", "held-out reward", "last", "more"),
        Measure("val/response_length", "held-out response length (tokens)", "last", None, 1),
        *of_held_out_sets(logged),
        Measure("reward/sampled_accuracy", "training accuracy", "tail", "more"),
        Measure("reward/score", "training reward", "tail", "more"),
        *(Measure(name, title, "last" if name.startswith("val/") else "tail", "more")
          for name, title in function_titles(logged).items()),
        Measure("code/pass_ratio", "training share of tests passed", "tail", "more"),
        Measure("filter/kept_share", "groups kept by the filter", "mean", "more"),
        Measure("code/cost/tokens_per_solved", "tokens per solved problem", "tail", "less", 1),
        Measure("perf/seconds_per_solved", "CPU seconds of programs per solved problem", "tail", "less", 4),
        Measure("code/timeout_rate", "timeouts", "tail", "less"),
        Measure("response_length/mean", "response length (tokens)", "tail", None, 1),
        Measure("entropy/mean", "token entropy (nats)", "tail", None),
        Measure("critic/kl", "KL to the reference (nats a token)", "tail", None, 4),
        Measure("perf/scoring_wait_share", "time waiting for verdicts", "mean", "less", 4),
        Measure("perf/total_num_tokens", "tokens sampled", "sum", None, 0),
        Measure("timing_s/step", "time in steps (s)", "sum", None, 1),
    ]  # fmt: skip
    return first + [measure for measure in rest if (measure.metric, measure.how) != (metric, "last")]


def of_held_out_sets(logged: Iterable[str]) -> list[Measure]:
    """Accuracy and length on each of several held-out sets."""
    sets = sorted(of.groups() for name in logged if (of := re.fullmatch(r"val/(.+)/(accuracy|response_length)", name)))
    return [
        Measure(f"val/{of}/accuracy", f"held-out accuracy, {of}", "last", "more")
        if what == "accuracy"
        else Measure(f"val/{of}/response_length", f"held-out response length, {of} (tokens)", "last", None, 1)
        for of, what in sets
    ]


def function_titles(logged: Iterable[str]) -> dict[str, str]:
    """The metrics of reward functions, with their titles."""
    matches = ((name, re.fullmatch(r"(val/)?rewards/(.+)/mean", name)) for name in sorted(logged))
    return {name: f"{'held-out' if of[1] else 'training'} reward {of[2]}" for name, of in matches if of}


def error_measures() -> list[Measure]:
    """Shares of samples by verdict."""
    better = {"accepted": "more"}
    return [Measure(f"code/error/{name}", name.replace("_", " "), "tail", better.get(name, "less"))  # type: ignore[arg-type]
            for name in ERRORS]  # fmt: skip


def value_of(measure: Measure, child: ChildRows, last: int, tokens: float | None = None) -> Value | None:
    """A child's number at step `last`; None if rows are missing or one of them is not finite.

    tokens: up to which an area reaches.
    """
    rows = [row for row in child.rows.get(measure.metric, []) if row.step <= last]
    if measure.how == "last":
        rows = [row for row in rows if row.step == last]
    elif measure.how in ("rise", "mean"):
        rows = [row for row in rows if row.step > 0]
    elif measure.how == "tail":
        rows = [row for row in rows if row.step > last - max(1, round(last * TAIL))]
    if not rows or not all(math.isfinite(row.value) for row in rows):
        return None
    if measure.how == "area":
        weights = area_weights([child.tokens_at(row.step) for row in rows], tokens or 0.0)
        return None if weights is None else Value(child, _weighted(rows, weights), rows, weights)
    total = sum(row.value for row in rows)
    return Value(child, total if measure.how == "sum" else total / len(rows), rows)


def area_weights(tokens: list[float], limit: float) -> list[float] | None:
    """Weights of values in their mean over tokens, from the first value's token count to `limit` (trapezoid rule).

    None if `limit` is not beyond the first value.
    """
    if not limit > tokens[0]:
        return None
    weights = [0.0] * len(tokens)
    for place, (start, end) in enumerate(pairwise(tokens)):
        within = min(end, limit) - start
        if within > 0:
            of_end = within * within / (2 * (end - start))
            weights[place] += within - of_end
            weights[place + 1] += of_end
    return [weight / (min(limit, tokens[-1]) - tokens[0]) for weight in weights]


def _weighted(rows: list[Row], weights: list[float]) -> float:
    return sum(weight * row.value for row, weight in zip(rows, weights, strict=True))


def compared_step(ablation: AblationRows) -> int | None:
    """The step at which children are compared: the last at which any child has the compared metric."""
    steps = [rows[-1].step for child in ablation.children if (rows := child.rows.get(ablation.definition.metric))]
    return max(steps, default=None)


def end_of(ablation: AblationRows, child: ChildRows) -> int | None:
    """The step at which a child is compared: `compared_step`, or the step that reached the budget of tokens.

    None: it has not got there.
    """
    rows, budget = child.rows.get(ablation.definition.metric), ablation.definition.equal_tokens
    if not rows:
        return None
    last = rows[-1].step
    arrived = last == compared_step(ablation) if budget is None else child.tokens_at(last) >= budget
    return last if arrived else None


def compared_tokens(ablation: AblationRows) -> float | None:
    """The number of sampled tokens at which areas end: the budget, else what every compared child has reached."""
    if ablation.definition.equal_tokens is not None:
        return float(ablation.definition.equal_tokens)
    ends = [child.tokens_at(last) for child in ablation.children if (last := end_of(ablation, child)) is not None]
    return min(ends, default=None)
