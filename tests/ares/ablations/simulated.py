"""How often the verdicts of an ablation claim an effect that is not there, or find one that is: simulations.

A child's accuracy on a held-out problem has a part that the problem gives every child, one that the seed gives every
variant, one of the child's own and one that the problem gives the variant; what is measured is the share of SAMPLES
throws that succeed. Effects are in spreads: standard deviations over seeds of one variant's accuracy. Of three variants
beside the baseline the first has the effect. A false claim is a claim of anything else; power is the share of ablations
that claim the effect, in its direction. Figures of 36 kinds of ablations: docs/results/statistics.csv (`unpaired` there
is a verdict of before 2026-11-25).
"""

from dataclasses import dataclass

import numpy as np

from algorithms.keys import derive_seed
from ares.ablations.statistics import add_skew_test, adjust, draw_means, draw_shares, pair
from ares.evaluation import LEVEL, p_of_draws

VARIANTS, PROBLEMS, SAMPLES = 3, 200, 4
SPREAD = 0.04


@dataclass(frozen=True)
class World:
    """The distribution that ablations are drawn from."""

    effect: float
    seeds: int
    shared: float
    """Share of the variance over seeds that children of one seed have in common."""
    interaction: float
    """Standard deviation over problems of what a problem gives a variant: of it, the problems held out are a sample."""


def simulate(world: World, rng: np.random.Generator) -> np.ndarray:
    """Measured accuracies [variants, seeds, problems] of one ablation; variant 0 is the baseline, 1 has the effect."""
    of_problem = rng.normal(0.5, 0.15, (1, 1, PROBLEMS))
    of_seed = rng.normal(0, SPREAD * world.shared**0.5, (1, world.seeds, 1))
    own = rng.normal(0, SPREAD * (1 - world.shared) ** 0.5, (VARIANTS + 1, world.seeds, 1))
    of_variant = rng.normal(0, 1, (VARIANTS + 1, 1, PROBLEMS)) * world.interaction
    effects = np.array([0, world.effect * SPREAD] + [0.0] * (VARIANTS - 1))[:, None, None]
    return rng.binomial(SAMPLES, np.clip(of_problem + of_seed + own + of_variant + effects, 0, 1)) / SAMPLES


def claim(measured: np.ndarray, shares: tuple[np.ndarray, ...]) -> dict[int, bool]:
    """The variants of which a difference is claimed, and whether it is for the better."""
    differences = {number: measured[number] - measured[0] for number in range(1, len(measured))}
    p = {
        str(number): max(pair(each.mean(1).tolist()).p or 0.0, p_of_draws(draw_means(each, *shares)))
        for number, each in differences.items()
    }
    below = [int(number) for number, adjusted in adjust(p, VARIANTS).items() if adjusted < LEVEL]
    return {number: bool(differences[number].mean() > 0) for number in below}


def count_outcomes(world: World, ablations: int, draws: int) -> tuple[float, float]:
    """Shares of simulated ablations with a false claim, and of those that claim the effect."""
    rng = np.random.default_rng(derive_seed("simulated ablations", str(world)))
    shares = draw_shares((world.seeds, PROBLEMS), ("simulated", world.seeds), draws)
    false_claims = power = 0
    for _ in range(ablations):
        claimed = claim(simulate(world, rng), shares)
        is_true = world.effect > 0 and claimed.get(1, False)
        power += is_true
        false_claims += len(claimed) > is_true
    return false_claims / ablations, power / ablations


def count_skewed_claims(seeds: int, comparisons: int) -> tuple[float, float]:
    """Shares of comparisons with skewed differences of mean zero that the t test claims, and that both tests do."""
    rng = np.random.default_rng(derive_seed("skewed differences", seeds))
    found = [add_skew_test(pair((rng.exponential(1, seeds) - 1).tolist())) for _ in range(comparisons)]
    return (
        sum((each.p or 0.0) < LEVEL for each in found) / comparisons,
        sum((each.larger_p or 0.0) < LEVEL for each in found) / comparisons,
    )
