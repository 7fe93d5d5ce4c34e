"""Secondary claims of an ablation: that a variant is no worse, and that two metrics change by different shares.

Covered: non-inferiority by a margin, the interaction of two relative changes, their wording. Not covered: which numbers
are compared (ares/ablations/comparison.py), the statistics (ares/ablations/paired.py).
"""

import math
from dataclasses import dataclass
from typing import Literal

from ares.ablations.paired import Difference, PairedDifferences

Judgement = Literal["no worse", "worse", "not shown"]


@dataclass(frozen=True)
class Margin:
    """Every variant's difference from the baseline in a metric that it may lower by `margin` at most."""

    metric: str
    margin: float
    differences: dict[str, Difference]

    def judged(self, variant: str) -> Judgement:
        """No worse: the 95 % intervals over seeds and, where known, over problems too lie above −margin; worse: they
        lie below it (one-sided tests at 2.5 %, not adjusted over the variants)."""
        low, high = widest(self.differences[variant])
        if self.differences[variant].p_seeds is None:  # one seed, or an unknown spread
            return "not shown"
        if low is not None and low > -self.margin:
            return "no worse"
        return "worse" if high is not None and high < -self.margin else "not shown"


@dataclass(frozen=True)
class Interaction:
    """The relative changes of two metrics against the baseline, and whether they differ."""

    metrics: tuple[str, str]
    shares: dict[str, dict[str, Difference]]
    """By metric and variant: ln(variant / baseline), paired by seed."""
    between: PairedDifferences
    """By variant: the first metric's log ratio minus the second's, p adjusted over the variants."""


def widest(difference: Difference) -> tuple[float | None, float | None]:
    """The interval over seeds, widened to that over problems where it is known."""
    low, high = difference.low, difference.high
    if low is None or high is None or difference.over_problems is None:
        return low, high
    return min(low, difference.over_problems[0]), max(high, difference.over_problems[1])


def percent(difference: Difference) -> str:
    """A difference of logarithms as a change in percent, with its interval."""
    mean, low, high = (None if value is None else 100 * math.expm1(value)
                       for value in (difference.mean, difference.low, difference.high))  # fmt: skip
    return f"{mean:+.1f} %" + ("" if low is None else f" [{low:+.1f}, {high:+.1f}]")


def told_margin(margin: Margin) -> str:
    """The judgement of every variant, in a sentence."""
    told = []
    for variant, difference in margin.differences.items():
        low, high = widest(difference)
        interval = "" if low is None else f" [{low:+.3f}, {high:+.3f}]"
        told.append(f"{variant} {margin.judged(variant)} ({difference.mean:+.3f}{interval})")
    return f"{margin.metric}, by at most {margin.margin:g} lower: {'; '.join(told)}."


def told_interaction(interaction: Interaction) -> str:
    """How much more the first metric changes than the second, for every variant, in a sentence."""
    first, second = interaction.metrics
    told = []
    for variant, difference in interaction.between.differences.items():
        p = interaction.between.adjusted.get(variant)
        claim = "not shown" if not interaction.between.claimed(variant) else "more" if difference.mean > 0 else "less"
        told.append(f"{variant} {percent(difference)}{'' if p is None else f', p {p:.3f}'}: {claim}")
    return f"{first} against {second}, both as shares of the baseline's: {'; '.join(told)}."
