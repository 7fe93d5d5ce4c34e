"""How often the verdicts of an ablation claim an effect that is not there, or find one that is: simulations.

A child's accuracy on a held-out problem has a part that the problem gives every child, one that the seed gives every
variant, one of the child's own and one that the problem gives the variant; what is measured is the share of SAMPLES
throws that succeed. Effects are in spreads: standard deviations over seeds of one variant's accuracy. Of three variants
beside the baseline the first has the effect. A false claim is a claim of anything else; power is the share of ablations
that claim the effect, in its direction. The unpaired verdict is the one of ablations without a baseline: a winner whose
interval lies clear of all others.

    python -m benchmarks.ablation_statistics [--ablations 1000] [--seeds 5 10] [--csv docs/results/statistics.csv]
"""

from __future__ import annotations

import argparse
import csv
import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from algorithms.keys import derive_seed
from ares.ablations.paired import LEVEL, Resampling, drawn_means, holm, p_of_draws, paired, resampling
from ares.ablations.statistics import leader

EFFECTS = (0.0, 0.5, 1.0)
SHARED = (0.0, 0.5, 0.8)
"""Share of the variance over seeds that children of one seed have in common."""
INTERACTIONS = (0.0, 0.1)
"""Standard deviation over problems of what a problem gives a variant: of it, the problems held out are a sample."""
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
    interaction: float


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


def worlds(seeds: list[int]) -> Iterator[World]:
    """Every world that is simulated."""
    for count, interaction, shared, effect in itertools.product(seeds, INTERACTIONS, SHARED, EFFECTS):
        yield World(effect, count, shared, interaction)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ablations", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    print(f"{arguments.ablations} ablations each, {VARIANTS} variants, {PROBLEMS} problems; false claims / power")
    print("seeds  interaction  shared  effect  " + "".join(f"{verdict:>16}" for verdict in VERDICTS))
    lines = []
    for world in worlds(arguments.seeds):
        of_world = outcomes(world, arguments.ablations)
        lines += [asdict(world) | asdict(outcome) for outcome in of_world]
        told = "".join(f"{each.false_claims:9.3f} /{each.power:5.3f}" for each in of_world)
        print(f"{world.seeds:5}  {world.interaction:11}  {world.shared:6}  {world.effect:6}  {told}", flush=True)
    if arguments.csv:
        with arguments.csv.open("w", newline="", encoding="utf-8") as target:
            writer = csv.DictWriter(target, lines[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
