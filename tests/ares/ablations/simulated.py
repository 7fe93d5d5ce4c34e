"""How often the verdicts of an ablation claim an effect that is not there, or find one that is: simulations.

A child's accuracy on a held-out problem has a part that the problem gives every child, one that the seed gives every
variant, one of the child's own and one that the problem gives the variant; what is measured is the share of SAMPLES
throws that succeed. Effects are in spreads: standard deviations over seeds of one variant's accuracy. Of three variants
beside the baseline the first has the effect. A false claim is a claim of anything else; power is the share of ablations
that claim the effect, in its direction. The unpaired verdict is the one of ablations without a baseline: a winner whose
interval lies clear of all others. Figures of 36 kinds of ablations: docs/results/statistics.csv.
"""

from dataclasses import dataclass

import numpy as np

from algorithms.keys import derive_seed
from ares.ablations.paired import LEVEL, Resampling, drawn_means, holm, p_of_draws, paired, resampling
from ares.ablations.statistics import leader

VARIANTS, PROBLEMS, SAMPLES = 3, 200, 4
SPREAD = 0.04
VERDICTS = ("unpaired", "t", "bootstrap", "both")
"""both: the larger p of the two, which is the verdict of ablations with a baseline."""


@dataclass(frozen=True)
class World:
    """The distribution that ablations are drawn from."""

    effect: float
    seeds: int
    shared: float
    """Share of the variance over seeds that children of one seed have in common."""
    interaction: float
    """Standard deviation over problems of what a problem gives a variant: of it, the problems held out are a sample."""


@dataclass(frozen=True)
class Outcome:
    """Shares of simulated ablations."""

    verdict: str
    false_claims: float
    power: float


def simulated(world: World, rng: np.random.Generator) -> np.ndarray:
    """Measured accuracies [variants, seeds, problems] of one ablation; variant 0 is the baseline, 1 has the effect."""
    of_problem = rng.normal(0.5, 0.15, (1, 1, PROBLEMS))
    of_seed = rng.normal(0, SPREAD * world.shared**0.5, (1, world.seeds, 1))
    own = rng.normal(0, SPREAD * (1 - world.shared) ** 0.5, (VARIANTS + 1, world.seeds, 1))
    of_variant = rng.normal(0, 1, (VARIANTS + 1, 1, PROBLEMS)) * world.interaction
    effects = np.array([0, world.effect * SPREAD] + [0.0] * (VARIANTS - 1))[:, None, None]
    return rng.binomial(SAMPLES, np.clip(of_problem + of_seed + own + of_variant + effects, 0, 1)) / SAMPLES


def claims(measured: np.ndarray, draws: Resampling) -> dict[str, dict[int, bool]]:
    """By verdict: the variants of which a difference is claimed, and whether it is for the better."""
    means = measured.mean(2)
    best = leader({str(variant): values.tolist() for variant, values in enumerate(means)})
    claimed: dict[str, dict[int, bool]] = {"unpaired": {int(best.name): True} if best.wins else {}}
    differences = measured[1:] - measured[0]
    p_t = {number: paired(each.mean(1).tolist()).p_seeds or 0.0 for number, each in enumerate(differences, 1)}
    p_b = {number: p_of_draws(drawn_means(each, draws)) for number, each in enumerate(differences, 1)}
    both = {number: max(p_t[number], p_b[number]) for number in p_t}
    for verdict, p in zip(VERDICTS[1:], (p_t, p_b, both), strict=True):
        adjusted = holm({str(number): value for number, value in p.items()})
        below = [number for number in p if adjusted[str(number)] < LEVEL]
        claimed[verdict] = {number: bool(differences[number - 1].mean() > 0) for number in below}
    return claimed


def outcomes(world: World, ablations: int, bootstrap_draws: int = 10_000) -> list[Outcome]:
    """False claims and power of every verdict, over this many simulated ablations."""
    rng = np.random.default_rng(derive_seed("simulated ablations", str(world)))
    draws = resampling(world.seeds, PROBLEMS, ("simulated", world.seeds), bootstrap_draws)
    false, true = dict.fromkeys(VERDICTS, 0), dict.fromkeys(VERDICTS, 0)
    for _ in range(ablations):
        for verdict, claimed in claims(simulated(world, rng), draws).items():
            is_true = world.effect > 0 and claimed.get(1, False)
            true[verdict] += is_true
            false[verdict] += len(claimed) > is_true
    return [Outcome(verdict, false[verdict] / ablations, true[verdict] / ablations) for verdict in VERDICTS]
