import math

import numpy as np
import pytest

from ares.ablations.paired import (
    Difference,
    against,
    drawn_means,
    holm,
    over_problems,
    paired,
    paired_seeds_needed,
    paired_verdict,
    resampling,
)
from ares.ablations.statistics import MOST_SEEDS
from tests.ares.ablations.simulated import World, outcomes


def test_the_t_test_of_differences_is_students() -> None:
    """Worked by hand: mean 2, s = 1, t = 2√3 = 3.4641; two-sided p of t with two degrees of freedom is .0742."""
    difference = paired([1.0, 2.0, 3.0])
    assert (difference.mean, difference.spread, difference.seeds) == (2.0, 1.0, 3)
    assert difference.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert difference.p_seeds == pytest.approx(
        1 - math.sqrt(12 / (12 + 2)), abs=1e-4
    )  # F of t with 2 df, in closed form


def test_what_seeds_cannot_tell_has_no_p() -> None:
    assert paired([0.1]).p is None
    assert paired([0.1, 0.1]).p is None
    assert paired([0.0, 0.0]).p == 1.0


def test_rounding_is_not_spread() -> None:
    """Three differences, equal but for floating point, were claimed with p = 10⁻³¹."""
    equal = paired([0.80 - 0.75, 0.70 - 0.65, 0.60 - 0.55])
    assert equal.p is None
    told = paired_verdict(against("base", {"x": equal}), "val/accuracy")
    assert "x +0.050 [+0.050, +0.050], not shown: every seed differs by the same" in told
    assert paired([0.1 + 0.2 - 0.3, 0.0]).p == 1.0
    assert paired([1e-6, 1.1e-6]).spread == pytest.approx(1e-7 / math.sqrt(2))


def test_holm_multiplies_by_those_that_are_left_and_never_falls() -> None:
    """Worked by hand: .01·3, .02·2, then .03·1 = .03, which is raised to the .04 before it."""
    assert holm({"c": 0.03, "a": 0.01, "b": 0.02}) == pytest.approx({"a": 0.03, "b": 0.04, "c": 0.04})
    assert holm({"a": 0.9, "b": 0.8}) == {"b": 1.0, "a": 1.0}


def test_a_draw_is_the_mean_over_the_seeds_and_problems_it_takes() -> None:
    differences = np.arange(6.0).reshape(2, 3)
    draws = resampling(2, 3, ("x",), draws=50)
    for draw, mean in enumerate(drawn_means(differences, draws)):
        seeds = np.repeat(np.arange(2), (draws.seeds[draw] * 2).round().astype(int))
        problems = np.repeat(np.arange(3), (draws.problems[draw] * 3).round().astype(int))
        assert (len(seeds), len(problems)) == (2, 3)
        assert mean == pytest.approx(differences[np.ix_(seeds, problems)].mean())


def test_draws_are_keyed() -> None:
    one, again, other = (resampling(4, 9, key, draws=20).problems for key in (("a", 1), ("a", 1), ("a", 2)))
    assert (one == again).all()
    assert (one != other).any()


def test_the_bootstrap_of_a_balanced_table_has_the_variance_it_should() -> None:
    """Of differences a[s] + b[p] the draws' variance is var(a)/S + var(b)/P (population variances)."""
    rng = np.random.default_rng(0)
    of_seed, of_problem = rng.normal(0, 1, 8), rng.normal(0, 2, 40)
    draws = resampling(8, 40, ("variance",))
    variance = drawn_means(of_seed[:, None] + of_problem, draws).var()
    assert variance == pytest.approx(of_seed.var() / 8 + of_problem.var() / 40, rel=0.05)


def test_a_difference_that_a_few_problems_make_is_not_claimed() -> None:
    """Every seed agrees, but two of forty problems make the whole difference, and other problems might make none."""
    table = np.zeros((5, 40))
    table[:, :2] = 1 + np.linspace(-0.05, 0.05, 5)[:, None]
    difference = over_problems(paired(table.mean(1).tolist()), table, ("few",))
    assert difference.p_seeds is not None
    assert difference.p_seeds < 0.001
    assert difference.over_problems is not None
    assert difference.over_problems[0] == 0
    assert not against("base", {"odd": difference}).claimed("odd")
    level = np.full((5, 40), table.mean()) + np.linspace(-0.01, 0.01, 5)[:, None]
    everywhere = over_problems(paired(level.mean(1).tolist()), level, ("all",))
    assert against("base", {"even": everywhere}).claimed("even")


def test_the_words_follow_the_adjusted_p_and_the_side_that_is_better() -> None:
    clear, close = paired([0.04, 0.05, 0.06, 0.05]), paired([0.01, -0.02, 0.03, 0.0])
    told = paired_verdict(against("base", {"up": clear, "level": close}), "val/accuracy")
    assert told.startswith("val/accuracy against base, paired by seed: up is better: +0.050 [+0.037, +0.063], p 0.00")
    assert "level +0.005 [" in told
    assert "not shown (it might take about " in told or "not shown (it would take more than" in told
    less = paired_verdict(against("base", {"up": clear}), "tokens", maximise=False)
    assert "up is worse" in less
    # .03 alone is a claim; beside two others it is none.
    lone = Difference(0.05, 0.01, 0.09, 0.03, 5, 0.03)
    other = Difference(0.0, -0.04, 0.04, 0.03, 5, 0.9)
    assert against("base", {"a": lone}).claimed("a")
    assert not against("base", {"a": lone, "b": other, "c": other}).claimed("a")


def test_the_seeds_needed_are_the_first_count_that_makes_the_claim() -> None:
    difference = paired([0.05, -0.01, 0.04, 0.0])
    needed = paired_seeds_needed(difference, 1)
    assert needed is not None
    assert difference.spread is not None
    for count, claimed in ((needed, True), (needed - 1, False)):
        values = np.array([-1.0] * (count // 2) + [0.0] * (count % 2) + [1.0] * (count // 2))
        same = difference.mean + values * difference.spread / values.std(ddof=1)
        assert against("base", {"x": paired(same.tolist())}).claimed("x") == claimed
    more = paired_seeds_needed(difference, 5)
    assert more is not None
    assert more > needed
    assert paired_seeds_needed(paired([1e-4, -1e-4, 1e-5]), 1) is None
    assert f"more than {MOST_SEEDS}" in paired_verdict(against("b", {"x": paired([1e-4, -1e-4, 1e-5])}), "val/accuracy")


def test_false_claims_are_rare_and_pairing_finds_more() -> None:
    """A small form of the simulations in docs/results/statistics.csv; the draws are keyed, so this cannot flicker.

    Of 200 ablations without effect at most 5 % may claim one; 17 is two standard errors above the ten that are allowed.
    """
    for interaction in (0.0, 0.1):
        none = {each.verdict: each for each in outcomes(World(0.0, 10, 0.8, interaction), 200, 1000)}
        assert none["both"].false_claims <= 17 / 200
    there = {each.verdict: each for each in outcomes(World(1.0, 10, 0.8, 0.0), 60, 1000)}
    assert there["both"].power > there["unpaired"].power + 0.3
