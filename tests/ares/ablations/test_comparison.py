"""Differences from a baseline, margins, interactions and areas, in the report and its plot."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from ares.ablations import plots
from ares.ablations.comparison import conclusion
from ares.ablations.measures import area_weights, compared_tokens, end_of, measures, value_of
from ares.ablations.report import difference_picture, render, write_page, write_report
from ares.ablations.rows import AblationRows, Row
from ares.ablations.tables import read_csv
from tests.ares.ablations.example_rows import ABLATION, Page, ablation, child, paired_ablation


@pytest.fixture(autouse=True)
def _no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of a report's time."""
    monkeypatch.setattr("ares.ablations.report.curves", lambda *_, **__: "<svg/>")


def test_a_baseline_is_compared_with_seed_by_seed() -> None:
    """Worked by hand: .20, .21, .17; mean .1933, s .0208, half the interval 4.3027 · .0208 / √3 = .0517, t 16.1."""
    told = conclusion(paired_ablation())
    assert told.startswith("val/accuracy against loose, paired by seed: tight is better: +0.193 [+0.142, +0.245]")
    assert ", over problems too [+0.1" in told
    assert ", p 0.004." in told
    rows = {row[0]: row for row in Page(render(paired_ablation(), "report.csv")).rows if row}
    assert "p 0.0038" in rows["val/accuracyvalue at the last step, primary"][1]
    assert rows["groups kept by the filtermean over all steps, exploratory"][1].startswith("0.000 [0.000, 0.000]")


def test_without_values_by_problem_the_seeds_speak_alone() -> None:
    found = paired_ablation()
    for of in found.children:
        of.problems = {}
    assert "over problems" not in conclusion(found)
    assert "tight is better" in conclusion(found)


def test_a_finished_child_without_a_number_is_named_in_the_verdict() -> None:
    """One that diverged silently went missing, and its variant looked better for it."""
    for found in (paired_ablation(), ablation()):
        assert "Left out" not in conclusion(found)
        found.children[-1].rows["val/accuracy"][-1] = Row(8, float("nan"))
        assert conclusion(found).endswith(" Left out, since val/accuracy is not a number: tight seed 2.")


def test_variants_that_share_nothing_are_compared_unpaired() -> None:
    found = paired_ablation()
    for of in found.children:
        of.settings |= {"model.path": of.variant, "data.train": of.variant}
    told = conclusion(found)
    assert "tight shares neither weights nor problems with loose: unpaired. tight wins on val/accuracy" in told
    assert "is better" not in told


BESIDES = {
    "baseline": "loose",
    "no_worse": {"val/accuracy": 0.02},
    "interaction": ("val/easy/response_length", "val/hard/response_length"),
}


def besides_ablation(tight: list[float], easy: list[float]) -> AblationRows:
    """Accuracies of tight by seed, and its share of loose's tokens on the easy set; on the hard set all."""
    found = ablation(definition=ABLATION.model_copy(update=BESIDES))
    for of in found.children:
        share = easy[of.seed] if of.variant == "tight" else 1.0
        of.rows["val/accuracy"][-1] = Row(8, tight[of.seed] if of.variant == "tight" else 0.6)
        of.rows["val/easy/response_length"] = [Row(8, (20.0 + of.seed) * share)]
        of.rows["val/hard/response_length"] = [Row(8, 50.0 + of.seed)]
    return found


@pytest.mark.parametrize(
    ("tight", "judgement"),
    [
        ([0.60, 0.605, 0.595], "no worse (+0.000 [-0.012, +0.012])"),  # half the interval: 4.3027 · .005 / √3
        ([0.60, 0.62, 0.58], "not shown (+0.000 [-0.050, +0.050])"),
        ([0.56, 0.565, 0.555], "worse (-0.040 [-0.052, -0.028])"),
    ],
)
def test_no_worse_is_said_where_the_interval_lies_above_the_margin(tight: list[float], judgement: str) -> None:
    found = besides_ablation(tight, [0.8, 0.8, 0.8])
    assert f"val/accuracy, by at most 0.02 lower: tight {judgement}." in conclusion(found)
    cells = [row for row in Page(render(found, "report.csv")).rows if row and row[0].startswith("val/accuracyno worse")]
    assert judgement.partition(" (")[0] in cells[0][1]


def test_other_held_out_problems_count_against_no_worse() -> None:
    found = besides_ablation([0.60, 0.605, 0.595], [0.8, 0.8, 0.8])
    for of in found.children:  # ten problems, of which the variant solves half more and half fewer
        sign = 0.2 if of.variant == "tight" else 0.0
        last = of.rows["val/accuracy"][-1].value
        of.problems = {8: {f"p{n}": last + sign * (-1) ** n for n in range(10)}}
    assert "val/accuracy, by at most 0.02 lower: tight not shown (+0.000 [-0.1" in conclusion(found)


def test_an_interaction_is_the_ratio_of_two_changes() -> None:
    """Worked by hand: ln .8, ln .78, ln .82 have the mean −.2234 and the spread .0250: −20.0 % [−24.8, −14.9]."""
    found = besides_ablation([0.6, 0.61, 0.6], [0.8, 0.78, 0.82])
    told = conclusion(found)
    assert "val/easy/response_length against val/hard/response_length" in told
    assert "tight -20.0 % [-24.8, -14.9], p 0.004: less." in told
    rows = {row[0]: row for row in Page(render(found, "report.csv")).rows if row}
    assert rows["val/hard/response_lengthchange, in percent"][1] == "+0.0 % [+0.0, +0.0]"
    assert rows["val/easy/response_lengthchange, in percent"][1] == "-20.0 % [-24.8, -14.9]"
    level = besides_ablation([0.6, 0.61, 0.6], [0.9, 1.0, 1.1])
    assert ": not shown." in conclusion(level).partition("against val/hard")[2]


def test_the_picture_shows_every_seed_the_mean_its_interval_and_the_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worked by hand: −.04, −.035, −.045 have the mean −.04 and half the interval 4.3027 · .005 / √3."""
    drawn: list[Figure] = []
    monkeypatch.setattr(plots, "_svg", lambda figure: drawn.append(figure) or "")
    difference_picture(besides_ablation([0.56, 0.565, 0.555], [0.8, 0.8, 0.8]))
    (axis,) = drawn[0].axes  # the primary metric is the one with the margin
    seeds, interval, mean, zero, margin = (line.get_xdata() for line in axis.get_lines())
    assert list(seeds) == pytest.approx([-0.04, -0.035, -0.045])
    assert list(interval) == pytest.approx([-0.04 - 0.01242, -0.04 + 0.01242], abs=1e-5)
    assert [*mean, zero[0], margin[0]] == pytest.approx([-0.04, 0.0, -0.02])
    assert difference_picture(ablation()) == ""  # no baseline


def test_what_was_decided_besides_is_in_the_file_of_rows(tmp_path: Path) -> None:
    made = besides_ablation([0.6, 0.61, 0.6], [0.8, 0.78, 0.82])
    html, rows, picture = write_report(made, tmp_path / "report.html")
    assert conclusion(read_csv(rows)) == conclusion(made)
    before = html.read_bytes(), picture.read_bytes()
    assert write_page(read_csv(rows), html, rows) == [html, picture]
    assert (html.read_bytes(), picture.read_bytes()) == before


def test_an_area_is_the_mean_height_over_tokens_as_far_as_all_have_come() -> None:
    """Worked by hand: from 100 tokens .4, at 500 .5, at 900 .6: .5 over all, .45 over the first half."""
    assert area_weights([100, 500, 900], 900) == pytest.approx([0.25, 0.5, 0.25])
    assert area_weights([100, 500, 900], 500) == pytest.approx([0.5, 0.5, 0.0])
    assert area_weights([100, 500, 900], 300) == pytest.approx([0.75, 0.25, 0.0])  # half-way up the first stretch
    assert area_weights([100], 100) is None
    over = next(measure for measure in measures("area/val/accuracy", True))
    assert (over.metric, over.how) == ("val/accuracy", "area")
    found = value_of(over, child("loose", 0, 0.6), 8, 900)
    assert found is not None
    assert found.value == pytest.approx(0.5)
    longer = ablation()  # one that samples twice the tokens a step counts only as far as the others have come
    longer.children[0].rows["perf/total_num_tokens"] = [Row(step, 200.0) for step in range(9)]
    assert compared_tokens(longer) == 900


def test_children_of_a_budget_end_where_they_reach_it() -> None:
    found = ablation(definition=ABLATION.model_copy(update={"equal_tokens": 800}))
    found.children[0] = child("loose", 0, 0.6, steps=7)  # 800 tokens: it is done, a step before the others
    found.children[1] = child("loose", 1, 0.6, steps=6)
    assert [end_of(found, of) for of in found.children] == [7, None, 8, 8, 8, 8]
    assert compared_tokens(found) == 800
    assert "leash-loose-seed1 (last row at step 6" in render(found, "report.csv")
