"""Paired comparison with a baseline: differences seed by seed, over seeds and held-out problems.

Covered: Student's t interval of paired differences, a bootstrap of seeds crossed with problems, Holm's adjustment over
variants, when a difference is claimed, how many seeds it might take, the wording. Not covered: variants that share
nothing (ares/ablations/statistics.py), where values come from (ares/ablations/comparison.py).

Children of one seed share problems, initial weights and, until their responses diverge, every random draw: the effect
of a seed on both cancels in the difference. A difference is claimed where p, adjusted over the variants (Holm
1979), is below .05; p is the larger one of two: that of the t test, which knows the seeds alone, and where values by
problem are known that of the bootstrap, which asks whether other held-out problems could have turned it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from algorithms.keys import derive_seed
from ares.ablations.statistics import MOST_SEEDS
from ares.evaluation import CHUNK, DRAWS, LEVEL, estimate, p_of_draws, p_of_t, spread_of


@dataclass(frozen=True)
class Resampling:
    """How often each draw of a bootstrap takes each seed [draws, seeds] and each problem [draws, problems], as shares
    that sum to one."""

    seeds: np.ndarray
    problems: np.ndarray


@dataclass(frozen=True)
class Difference:
    """A variant against the baseline: the mean over seeds of paired differences, with intervals and p."""

    mean: float
    low: float | None
    high: float | None
    """The t interval; None below two seeds."""
    spread: float | None
    """Standard deviation of the differences over seeds (n−1)."""
    seeds: int
    p_seeds: float | None
    """Of the t test; None where the spread is unknown."""
    over_problems: tuple[float, float] | None = None
    """Percentile interval over draws of seeds and problems."""
    p_problems: float | None = None
    by_seed: tuple[float, ...] = ()
    """The differences themselves."""

    @property
    def p(self) -> float | None:
        """The larger of the two; None where the spread over seeds is unknown."""
        return None if self.p_seeds is None else max(self.p_seeds, self.p_problems or 0.0)


@dataclass(frozen=True)
class PairedDifferences:
    """Every variant against the baseline, with p adjusted over the variants."""

    baseline: str
    differences: dict[str, Difference]
    adjusted: dict[str, float]
    """Holm's p; a variant whose p is unknown is missing."""

    def claimed(self, variant: str) -> bool:
        """Whether a difference is claimed."""
        return self.adjusted.get(variant, 1.0) < LEVEL


def paired(differences: Sequence[float]) -> Difference:
    """The t interval and the t test of one difference a seed. Raises ValueError without values."""
    interval = estimate(differences)
    if len(differences) < 2:
        return Difference(interval.mean, None, None, None, 1, None, by_seed=tuple(differences))
    spread = spread_of(differences)
    return Difference(interval.mean, interval.low, interval.high, spread, len(differences),
                      p_of_t(interval.mean, spread, len(differences)), by_seed=tuple(differences))  # fmt: skip


def over_problems(difference: Difference, differences: np.ndarray, key: tuple[str | int, ...]) -> Difference:
    """Add a bootstrap to a difference, of its values by seed and problem [seeds, problems]; draws are keyed by `key`.

    Seeds and problems are drawn with replacement and independently: every seed was measured on the same problems
    (the pigeonhole bootstrap of Owen 2007, which errs to the wide side).
    """
    seeds, problems = differences.shape
    drawn = drawn_means(differences, resampling(seeds, problems, key))
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    return replace(difference, over_problems=(float(low), float(high)), p_problems=p_of_draws(drawn))


def resampling(seeds: int, problems: int, key: tuple[str | int, ...], draws: int = DRAWS) -> Resampling:
    """Draws of so many seeds and problems with replacement."""
    rng = np.random.default_rng(derive_seed("ablation", *key))
    of = [rng.multinomial(count, np.full(count, 1 / count), size=draws) / count for count in (seeds, problems)]
    return Resampling(of[0], of[1])


def drawn_means(differences: np.ndarray, draws: Resampling) -> np.ndarray:
    """Mean of each draw's differences: Σ seeds[b, s] · differences[s, p] · problems[b, p]."""
    parts = [slice(start, start + CHUNK) for start in range(0, len(draws.seeds), CHUNK)]
    return np.concatenate(
        [np.einsum("bp,bp->b", draws.seeds[part] @ differences, draws.problems[part]) for part in parts]
    )


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """p adjusted so that any false claim at all is as rare as the level says (Holm 1979)."""
    adjusted: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, min(1.0, (len(p) - place) * p[name]))
        adjusted[name] = largest
    return adjusted


def against(baseline: str, differences: dict[str, Difference]) -> PairedDifferences:
    """All variants' differences from the baseline, judged together."""
    known = {name: p for name, difference in differences.items() if (p := difference.p) is not None}
    return PairedDifferences(baseline, differences, holm(known))


def paired_seeds_needed(difference: Difference, variants: int) -> int | None:
    """Seeds a t test at Holm's strictest level for so many variants needs to claim the difference, if mean and spread
    stay the same.

    None where that takes more than MOST_SEEDS, or the spread is unknown.
    """
    if difference.spread is None or difference.mean == 0:
        return None
    quantile = 1 - LEVEL / variants / 2
    for count in range(2, MOST_SEEDS + 1):
        if stats.t.ppf(quantile, count - 1) * difference.spread / math.sqrt(count) < abs(difference.mean):
            return count
    return None


def paired_verdict(against: PairedDifferences, metric: str, maximise: bool = True) -> str:
    """What can be said of each variant against the baseline, in one paragraph."""
    if not against.differences:
        return (
            f"Nothing can be compared with {against.baseline} yet: no seed has {metric} of it and of another variant."
        )
    told = "; ".join(_told(against, name, maximise) for name in against.differences)
    return f"{metric} against {against.baseline}, paired by seed: {told}."


def _told(against: PairedDifferences, name: str, maximise: bool) -> str:
    difference = against.differences[name]
    shown = f"{difference.mean:+.3f}"
    if difference.low is None or difference.high is None:
        return f"{name} {shown}, not shown: there is only one seed"
    shown += f" [{difference.low:+.3f}, {difference.high:+.3f}]"
    if name not in against.adjusted:
        return f"{name} {shown}, not shown: every seed differs by the same, so the spread is unknown"
    if difference.over_problems is not None:
        low, high = difference.over_problems
        shown += f", over problems too [{low:+.3f}, {high:+.3f}]"
    shown += f", p {against.adjusted[name]:.3f}"
    if against.claimed(name):
        return f"{name} is {'better' if (difference.mean > 0) == maximise else 'worse'}: {shown}"
    return f"{name} {shown}, not shown{_prospect(difference, len(against.differences))}"


def _prospect(difference: Difference, variants: int) -> str:
    """How many seeds a claim might take."""
    needed = paired_seeds_needed(difference, variants)
    if needed is None:
        return f" (it would take more than {MOST_SEEDS} seeds: they are level)"
    if needed <= difference.seeds:
        return " (more held-out problems might)" if difference.over_problems else " (a seed more might)"
    return f" (it might take about {needed} seeds)"
