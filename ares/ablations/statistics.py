"""Unpaired comparison over a few seeds: t intervals, and a winner only where they separate.

Covered: Student's t interval of a mean over seeds, which variant leads and from which its interval separates, the
wording, how many seeds a claim might take. Not covered: where values come from
(ares/ablations/report.py).

Two 95 % intervals that do not touch are stronger evidence than a difference with p < .05 (for two equal spreads about
p < .01), which leaves room for comparing a few variants at once. It is no licence to look at many metrics.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ares.evaluation import Estimate, estimate, t_quantile

MOST_SEEDS = 200
"""A difference that needs more seeds is called too small to look for."""


@dataclass(frozen=True)
class Leader:
    """The variant with the best mean, and how its interval relates to the others."""

    name: str
    separates_from: list[str]
    overlaps: list[str]
    unknown: list[str]
    """Variants (perhaps the leader) whose spread is unknown: fewer than two seeds, or all seeds equal."""

    @property
    def wins(self) -> bool:
        """Whether its interval lies clear of every other one."""
        return bool(self.separates_from) and not self.overlaps and not self.unknown


def leader(values: dict[str, list[float]], maximise: bool = True) -> Leader:
    """Which of two or more variants has the best mean, and from which others its interval separates."""
    sign = 1.0 if maximise else -1.0
    estimates = {name: estimate([sign * value for value in of_variant]) for name, of_variant in values.items()}
    best = max(estimates, key=lambda name: estimates[name].mean)
    unknown = [name for name in estimates if not estimates[name].half_width]
    lower = estimates[best].low
    others = [name for name in estimates if name != best and name not in unknown]
    clear = [name for name in others if best not in unknown and _above(lower, estimates[name].high)]
    return Leader(best, clear, [name for name in others if name not in clear], unknown)


def seeds_needed(one: Sequence[float], other: Sequence[float]) -> int | None:
    """Seeds per variant at which two t intervals would separate, if means and spreads stayed the same.

    None where that takes more than MOST_SEEDS.
    """
    difference = abs(float(np.mean(one)) - float(np.mean(other)))
    spread = float(np.std(one, ddof=1) + np.std(other, ddof=1))
    counts = range(2, MOST_SEEDS + 1)
    return next((n for n in counts if t_quantile(n) * spread / math.sqrt(n) < difference), None)


def verdict(values: dict[str, list[float]], metric: str, maximise: bool = True) -> str:
    """The verdict in one paragraph: a winner, or why there is none and what it would take."""
    if len(values) < 2:
        return f"Nothing can be compared yet: fewer than two variants have a finished run with {metric}."
    best = leader(values, maximise)
    told = {name: _told(estimate(of_variant)) for name, of_variant in values.items()}
    if best.wins:
        side = "above" if maximise else "below"
        rest = "; ".join(f"{name} {told[name]}" for name in values if name != best.name)
        return f"{best.name} wins on {metric}: its interval, {told[best.name]}, lies {side} every other one ({rest})."
    lead = f"{'Highest' if maximise else 'Lowest'} mean of {metric}: {best.name}, {told[best.name]}"
    alone = [name for name in best.unknown if len(values[name]) < 2]
    if alone:
        who = ", ".join(alone)
        return f"No winner can be named: an interval needs two seeds, and there is only one of {who}. {lead}."
    if best.unknown:
        who = ", ".join(best.unknown)
        return f"No winner can be named: all seeds of {who} gave the same value, so its spread is unknown. {lead}."
    overlaps = _listed([f"{name}, {told[name]}" for name in best.overlaps], "; ")
    clear = f" It separates from {_listed(best.separates_from)}." if best.separates_from else ""
    needed = {name: seeds_needed(values[best.name], values[name]) for name in best.overlaps}
    return f"No winner can be named. {lead}; that interval overlaps {overlaps}.{clear}{_prospect(best.name, needed)}"


def _prospect(best: str, needed: dict[str, int | None]) -> str:
    """How many seeds it might take to tell the leader from those it overlaps."""
    possible = [f"{name} (about {count})" for name, count in needed.items() if count is not None]
    level = [name for name, count in needed.items() if count is None]
    told = ""
    if possible:
        told += (
            f" Seeds of each it might take, were means and spreads to stay: to tell {best} from {_listed(possible)}."
        )
    if level:
        told += (
            f" To tell {best} from {_listed(level)} it would take more than {MOST_SEEDS} seeds of each: on this metric "
            "they are level."
        )
    return told


def _listed(names: list[str], comma: str = ", ") -> str:
    return comma.join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _told(interval: Estimate) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.mean:.3f} (one seed)"
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _above(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and low > high
