"""Which numbers are compared and what is said of them: baselines, margins, interactions, areas, budgets, the plot."""

import math

import pandas as pd
import pytest
from matplotlib.figure import Figure

from ares.ablations import plots
from ares.ablations.comparison import (
    Measure,
    cut_rows,
    find_compared_tokens,
    find_numbers,
    list_measures,
    weigh_area,
)
from ares.ablations.report import draw_named_differences, render
from ares.ablations.rows import CHILD, AblationRows
from ares.ablations.wording import conclude
from tests.ares.ablations.example_rows import ABLATION, Page, ablation, child, children_of, paired_ablation


@pytest.fixture(autouse=True)
def _no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of a report's time."""
    monkeypatch.setattr("ares.ablations.report.draw_curves", lambda *_, **__: "<svg/>")


def test_a_baseline_is_compared_with_seed_by_seed() -> None:
    """Worked by hand: .20, .21, .17; mean .1933, s .0208, half the interval 4.3027 · .0208 / √3 = .0517, t 16.1."""
    told = conclude(paired_ablation())
    assert told.startswith("val/accuracy against loose, paired by seed: tight is better: +0.193 [+0.142, +0.245]")
    assert ", over problems too [+0.1" in told
    assert ", p 0.004." in told
    rows = {row[0]: row for row in Page(render(paired_ablation(), "report.csv")).rows if row}
    tight = rows["val/accuracyvalue at the last step, primary"][2]
    assert tight.startswith("0.813[0.775, 0.851]Δ +0.193 [+0.142, +0.245]problems too [+0.1")
    assert tight.endswith("p 0.0038")
    assert "Δ 0.000 [0.000, 0.000]" in rows["groups kept by the filtermean over all steps, exploratory"][2]


def test_without_values_by_problem_the_seeds_speak_alone() -> None:
    """Both tests of them: with a degree of freedom less, and the skew of .20, .21, .17, p is .017 instead of .004."""
    told = conclude(ablation())
    assert "over problems" not in told
    assert "tight is better: +0.193 [+0.142, +0.245], p 0.017." in told


def test_a_variant_whose_children_are_missing_counts_as_a_comparison() -> None:
    """While it was missing, the others were claimed at a level that they lost when it arrived: p is .017 · 2."""
    defined = ABLATION.model_copy(update={"variants": {"loose": [], "tight": [], "late": []}})
    assert "tight is better: +0.193 [+0.142, +0.245], p 0.034." in conclude(ablation(definition=defined))
    found = besides_ablation([0.6, 0.61, 0.6], [0.8, 0.79, 0.81])
    found.definition = found.definition.model_copy(update={"variants": defined.variants})
    assert "tight -20.0 % [-22.5, -17.5], p 0.037" in conclude(found)


@pytest.mark.parametrize(
    ("metric", "value", "said"),
    [
        ("val/easy/response_length", 0.0, "Left out, since val/easy/response_length was not above 0: tight seed 2."),
        ("val/easy/response_length", math.nan, "since val/easy/response_length was not above 0: tight seed 2."),
        ("val/pass_at_n", math.nan, "Left out, since val/pass_at_n was no number: tight seed 2."),
        ("val/accuracy", math.nan, "Left out, since val/accuracy was no number: tight seed 2."),
    ],
)
def test_a_finished_child_without_a_number_is_named_once_in_the_verdict(metric: str, value: float, said: str) -> None:
    """An arm that diverged or collapsed to zero was missing without a word, and its variant looked better for it."""
    found = besides_ablation([0.6, 0.61, 0.6], [0.8, 0.79, 0.81])
    found.definition = found.definition.model_copy(update={"no_worse": {"val/accuracy": 0.02, "val/pass_at_n": 0.02}})
    found.rows["val/pass_at_n"] = found.rows["val/accuracy"]
    assert "Left out" not in conclude(found)
    found.rows.loc[("tight", 2, 8), metric] = value
    told = conclude(found)
    assert told.endswith(said)
    assert told.count("Left out") == 1


def test_metrics_that_no_child_has_are_named_in_the_verdict() -> None:
    """A margin or an interaction of a mistyped metric was missing without a word."""
    besides = {"no_worse": {"val/pass_ratio": 0.02}, "interaction": ("val/easy/response_length", "val/accuracy")}
    told = conclude(ablation(definition=ABLATION.model_copy(update=besides)))
    for metrics in ("val/pass_ratio", "val/easy/response_length and val/accuracy, both above 0,"):
        assert f"Nothing can be compared with loose yet: no seed has {metrics} of it and of another variant." in told
    assert told.endswith("No child has logged val/easy/response_length, val/pass_ratio yet; if it is mistyped, correct "
                         "the file.")  # fmt: skip
    assert "Left out" not in told


def test_the_first_variant_is_the_baseline_unless_another_is_named() -> None:
    assert conclude(ablation()).startswith("val/accuracy against loose, paired by seed: tight is better: +0.193")
    other = ablation(definition=ABLATION.model_copy(update={"baseline": "tight"}))
    assert conclude(other).startswith("val/accuracy against tight, paired by seed: loose is worse: -0.193")
    fewer = ablation(definition=ABLATION.model_copy(update={"maximise": False}))
    assert "tight is worse: +0.193" in conclude(fewer)


BESIDES = {
    "no_worse": {"val/accuracy": 0.02},
    "interaction": ("val/easy/response_length", "val/hard/response_length"),
}


MEASURED = ["val/accuracy", "val/easy/response_length", "val/hard/response_length"]


def besides_ablation(tight: list[float], easy: list[float]) -> AblationRows:
    """Accuracies of tight by seed, and its share of loose's tokens on the easy set; on the hard set all."""
    found = ablation(definition=ABLATION.model_copy(update=BESIDES))
    found.rows[MEASURED[1:]] = math.nan
    for variant, seed in found.children:
        share = easy[seed] if variant == "tight" else 1.0
        values = [tight[seed] if variant == "tight" else 0.6, (20.0 + seed) * share, 50.0 + seed]
        found.rows.loc[(variant, seed, 8), MEASURED] = values
    return found


def test_no_worse_is_said_where_the_intervals_over_seeds_and_problems_lie_above_the_margin() -> None:
    """Worked by hand: 12.706 (t of one degree of freedom) · .001 / √3 is half the interval."""
    told = conclude(besides_ablation([0.60, 0.601, 0.599], [0.8, 0.8, 0.8]))
    assert "val/accuracy, by at most 0.02 lower: tight no worse (+0.000 [-0.007, +0.007])." in told
    found = besides_ablation([0.60, 0.605, 0.595], [0.8, 0.8, 0.8])
    last = found.rows["val/accuracy"].dropna()
    sign = 0.2 * (last.index.get_level_values("variant") == "tight")  # it solves half of the problems more, half fewer
    found.problems = pd.DataFrame({f"p{n}": last + sign * (-1) ** n for n in range(10)})
    assert "val/accuracy, by at most 0.02 lower: tight not shown (+0.000 [-0.1" in conclude(found)


def test_an_interaction_is_the_ratio_of_two_changes() -> None:
    """Worked by hand: ln .8, ln .79, ln .81 have the mean −.2232 and the spread .0125: −20.0 % [−22.5, −17.5]."""
    told = conclude(besides_ablation([0.6, 0.61, 0.6], [0.8, 0.79, 0.81]))
    assert "val/easy/response_length against val/hard/response_length, both as shares of the baseline's" in told
    assert "tight -20.0 % [-22.5, -17.5], p 0.018" in told
    assert told.endswith(": less.")
    assert conclude(besides_ablation([0.6, 0.61, 0.6], [0.9, 1.0, 1.1])).endswith(": not shown.")


def test_the_picture_shows_every_seed_the_mean_its_interval_and_the_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worked by hand: −.04, −.035, −.045 have the mean −.04 and half the interval 4.3027 · .005 / √3."""
    drawn: list[Figure] = []
    monkeypatch.setattr(plots.plt, "close", drawn.append)
    draw_named_differences(besides_ablation([0.56, 0.565, 0.555], [0.8, 0.8, 0.8]))
    (axis,) = drawn[0].axes  # the primary metric is the one with the margin
    seeds, interval, mean, zero, margin = (line.get_xdata() for line in axis.get_lines())
    assert list(seeds) == pytest.approx([-0.04, -0.035, -0.045])
    assert list(interval) == pytest.approx([-0.04 - 0.01242, -0.04 + 0.01242], abs=1e-5)
    assert [*mean, zero[0], margin[0]] == pytest.approx([-0.04, 0.0, -0.02])
    over_tokens = besides_ablation([0.56, 0.565, 0.555], [0.8, 0.8, 0.8])
    over_tokens.definition = over_tokens.definition.model_copy(update={"primary": "area/val/accuracy"})
    draw_named_differences(over_tokens)
    margins = [[line.get_xdata()[0] for line in axis.get_lines()[4:]] for axis in drawn[1].axes]
    assert margins == [[], [-0.02]]  # a margin is of the last accuracy, not of the area
    assert (
        draw_named_differences(ablation(children={("loose", 0): child("loose", 0, 0.6)})) == ""
    )  # the baseline's alone


def test_an_area_is_the_mean_height_over_tokens_as_far_as_all_have_come() -> None:
    """Worked by hand: from 100 tokens .4, at 500 .5, at 900 .6: .5 over all, .45 over the first half."""
    tokens = pd.Series({0: 100.0, 4: 500.0, 8: 900.0})
    for limit, weights in ((900, [0.25, 0.5, 0.25]), (500, [0.5, 0.5, 0.0]), (300, [0.75, 0.25, 0.0])):
        assert weigh_area(tokens, limit).tolist() == pytest.approx(weights)
    assert weigh_area(tokens, 2000).tolist() == pytest.approx([0.25, 0.5, 0.25])  # as far as it has come
    assert weigh_area(tokens[:1], 100).empty
    assert weigh_area(tokens[:1], 900).empty  # of one value it was not a number, and the child's area was 0
    over = list_measures("area/val/accuracy", [])[0]
    assert (over.metric, over.how) == ("val/accuracy", "area")
    found = ablation()
    found.rows.loc[("loose", 1, 8), "val/accuracy"] = 0.6
    assert find_numbers(found, over)["loose", 1] == pytest.approx(0.5)
    children = children_of(found)  # one that samples twice the tokens a step counts only as far as the others have come
    children["loose", 0]["perf/total_num_tokens"] *= 2
    assert find_compared_tokens(ablation(children=children)) == 900


def test_children_of_a_budget_are_compared_where_they_first_reach_it() -> None:
    """Also one that was trained further: it was compared at more tokens than the others."""
    shorter = {("loose", seed): child("loose", seed, 0.6, steps=7 - seed) for seed in (0, 1)}
    budget = ABLATION.model_copy(update={"equal_tokens": 800})
    found = ablation(children=children_of(ablation()) | shorter, definition=budget)
    assert cut_rows(found).groupby(CHILD).size().tolist() == [8, 8, 8, 8, 8]  # steps 0 to 7
    assert find_compared_tokens(found) == 800
    assert "leash-loose-seed1 (last row at step 6" in render(found, "report.csv")


@pytest.mark.parametrize(
    ("how", "value"),
    [("last", 0.58), ("tail", 0.575), ("mean", 0.545), ("sum", 8 * 0.545)],
)
def test_rows_become_one_number(how: str, value: float) -> None:
    """kept_share is .51, .52 … .58 at steps 1 to 8; of the last quarter .57 and .58."""
    measure = Measure("filter/kept_share", "kept", how)  # type: ignore[arg-type]
    found = ablation()
    assert find_numbers(found, measure)["loose", 0] == pytest.approx(value)
