"""What a few seeds can tell: differences from a baseline, paired by seed.

Covered: the t test of paired differences and a second one beside it, Holm's adjustment over variants, margins, how many
seeds a claim might take. Not covered: where the numbers come from (ares/ablations/comparison.py), the wording
(ares/ablations/wording.py).

Children of one seed share problems, initial weights and, until their responses diverge, every random draw: the effect
of a seed on both cancels in the difference. A difference is claimed where p, adjusted over the variants (Holm 1979), is
below .05; p is the larger one of two tests. The first is the t test, which knows the seeds alone and takes their
differences for normal. The second asks what the first cannot:

- where values by held-out problem are known: whether other problems could have turned the difference (a bootstrap);
- elsewhere: whether a few seeds hide a long tail. Of differences like Exp(1) − 1, whose mean is zero, the t test claims
  12 % with three to five seeds, 10 % with ten. A t test of the transformed t of Hall (1992), which takes out the skew
  that the seeds show, claims 5 to 6 % with any number. (Flipping signs, six seeds can claim at the earliest, and with
  ten the claims are still 9 %.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from algorithms.keys import derive_seed
from ares.evaluation import DRAWS, LEVEL, Estimate, estimate, p_of_draws

MOST_SEEDS = 200
"""A difference that needs more seeds is called too small to look for."""
NO_SKEW = 1e-6
"""Below this skewness, dividing by it would cost more than leaving it out."""
Judgement = Literal["no worse", "worse", "not shown"]


@dataclass(frozen=True)
class Difference(Estimate):
    """A variant against the baseline: the mean over seeds of paired differences, with the t test and a second one."""

    by_seed: tuple[float, ...] = ()
    second: tuple[float, float] | None = None
    """The interval of the second test, if there was one."""
    p_second: float | None = None
    has_problems: bool = False
    """Whether the second test is the bootstrap over held-out problems."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """The t interval; None for one seed."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def larger_p(self) -> float | None:
        """Of both tests; None where the spread over seeds is unknown."""
        return None if self.p is None else max(self.p, self.p_second or 0.0)

    @property
    def widest(self) -> tuple[float, float] | None:
        """The t interval, widened to that of the second test; None for one seed."""
        if self.interval is None or self.second is None:
            return self.interval
        return min(self.interval[0], self.second[0]), max(self.interval[1], self.second[1])


@dataclass(frozen=True)
class Differences:
    """Every variant against the baseline, judged together."""

    baseline: str
    of: dict[str, Difference]
    """By variant; one without numbers is missing."""
    variants: int
    """How many the definition compares with the baseline, also those without numbers: a claim must not come with a
    variant that is missing, and go when it arrives."""

    @cached_property
    def adjusted(self) -> dict[str, float]:
        """Holm's p by variant; a variant whose p is unknown is missing."""
        known = {name: p for name, difference in self.of.items() if (p := difference.larger_p) is not None}
        return adjust(known, self.variants)

    def claims(self, variant: str) -> bool:
        """Whether a difference is claimed."""
        return self.adjusted.get(variant, 1.0) < LEVEL


def judge(difference: Difference, margin: float) -> Judgement:
    """No worse where all 95 % intervals lie above −margin, worse where they lie below it (one-sided tests at 2.5 %, not
    adjusted over the variants)."""
    if difference.widest is None or difference.p is None:
        return "not shown"
    low, high = difference.widest
    return "no worse" if low > -margin else "worse" if high < -margin else "not shown"


def pair(differences: Sequence[float]) -> Difference:
    """The t interval and the t test of one difference a seed. Raises ValueError without values."""
    return Difference(**vars(estimate(differences)), by_seed=tuple(differences))


def add_problems_test(difference: Difference, table: np.ndarray, key: tuple[str | int, ...]) -> Difference:
    """Add a bootstrap to a difference, of its values by seed and problem [seeds, problems]; draws are keyed by `key`.

    Seeds and problems are drawn with replacement and independently: every seed was measured on the same problems
    (the pigeonhole bootstrap of Owen 2007, which errs to the wide side).
    """
    means = draw_means(table, *draw_shares((len(table), table.shape[1]), key))
    low, high = np.quantile(means, [LEVEL / 2, 1 - LEVEL / 2])
    return replace(difference, second=(float(low), float(high)), p_second=p_of_draws(means), has_problems=True)


def draw_shares(counts: tuple[int, int], key: tuple[str | int, ...], draws: int = DRAWS) -> tuple[np.ndarray, ...]:
    """How often each draw with replacement takes each seed and each problem, as shares that sum to one: [draws, S] and
    [draws, P]."""
    rng = np.random.default_rng(derive_seed("ablation", *key))
    return tuple(rng.multinomial(count, np.full(count, 1 / count), draws) / count for count in counts)


def draw_means(table: np.ndarray, seeds: np.ndarray, problems: np.ndarray) -> np.ndarray:
    """The mean of each draw of a table [S, P]: Σ seeds[b, s] · table[s, p] · problems[b, p]."""
    return np.asarray(np.einsum("bp,bp->b", seeds @ table, problems))


def add_skew_test(difference: Difference) -> Difference:
    """Add the t test of Hall's transformed t, with one degree of freedom less: it was spent on the skew.

    With S = mean / s, n seeds and their skewness g: Q = S + g·S²/3 + g²·S³/27 + g/6n, and √n·Q has about the
    distribution of t. (1 + g·S/3)³ = 1 + g·(Q − g/6n), so S and the interval follow from Q. Two seeds show no skew: the
    interval is infinite. A difference without spread is returned as it is.
    """
    spread, count = difference.spread, difference.count
    if not spread:
        return difference
    if count < 3:
        return replace(difference, second=(-math.inf, math.inf), p_second=1.0)
    skew, s = float(stats.skew(difference.by_seed, bias=False)), difference.mean / spread
    q = s + skew * s**2 / 3 + skew**2 * s**3 / 27 + skew / (6 * count)
    edges = np.array([1, -1]) * stats.t.ppf(1 - LEVEL / 2, count - 2) / math.sqrt(count)
    if abs(skew) > NO_SKEW:
        edges = 3 / skew * (np.cbrt(1 + skew * (edges - skew / (6 * count))) - 1)
    low, high = difference.mean - edges * spread
    p = float(2 * stats.t.sf(abs(q) * math.sqrt(count), count - 2))
    return replace(difference, second=(float(low), float(high)), p_second=p)


def adjust(p: Mapping[str, float], of: int) -> dict[str, float]:
    """p adjusted so that any false claim at all is as rare as the level says (Holm 1979).

    of: comparisons that are made in all; those without a p count as if theirs were larger.
    """
    ordered = pd.Series(p, dtype=float).sort_values()
    stepped = (ordered * (of - np.arange(len(ordered)))).cummax().clip(upper=1.0)
    return {str(name): float(value) for name, value in stepped.items()}


def count_seeds_needed(difference: Difference, variants: int) -> int | None:
    """Seeds a t test at Holm's strictest level for so many variants needs to claim the difference, if mean and spread
    stay the same.

    None where that takes more than MOST_SEEDS, or the spread is unknown.
    """
    if difference.spread is None:
        return None
    counts = np.arange(2, MOST_SEEDS + 1)
    half_widths = stats.t.ppf(1 - LEVEL / variants / 2, counts - 1) * difference.spread / np.sqrt(counts)
    enough = counts[half_widths < abs(difference.mean)]
    return int(enough[0]) if len(enough) else None
