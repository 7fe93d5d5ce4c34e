"""The report says what the rows say, and every number in it can be found among them."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from mlflow import MlflowClient
from mlflow.entities import Metric

from ares.ablations import plots
from ares.ablations.comparison import conclusion
from ares.ablations.definition import Ablation
from ares.ablations.measures import (
    area_weights,
    compared_step,
    compared_tokens,
    end_of,
    error_measures,
    measures,
    value_of,
)
from ares.ablations.report import difference_picture, figure, lines, render, write_page, write_report
from ares.ablations.rows import AblationRows, ChildRows, Row, read_rows
from ares.ablations.statistics import estimate
from ares.ablations.tables import read_csv, rows_csv
from ares.ablations.tracking import DEFINITION, TrackingError, check_fixed
from ares.config import ConfigError
from tests import mlflow_database

ABLATION = Ablation(name="leash", profile="tiny-math", variants={"loose": [], "tight": []}, seeds=[0, 1, 2])
FINAL = {"loose": [0.60, 0.62, 0.64], "tight": [0.80, 0.83, 0.81]}


def child(variant: str, seed: int, final: float, steps: int = 8, code: bool = False) -> ChildRows:
    """Evaluations at the start, half-way and at the end; a training figure at every step."""
    every = range(1, steps + 1)
    rows = {
        "val/accuracy": [Row(step, value) for step, value in ((0, 0.4), (steps // 2, 0.5), (steps, final))],
        "filter/kept_share": [Row(step, 0.5 + 0.01 * step + 0.001 * seed) for step in every],
        "timing_s/step": [Row(step, 2.0) for step in every],
        "response_length/mean": [Row(step, 30.0 + step) for step in every],
        "perf/total_num_tokens": [Row(step, 100.0) for step in range(steps + 1)],
    }
    if code:
        rows["code/error/accepted"] = [Row(step, 0.05 * step) for step in every]
        rows["code/error/wrong_answer"] = [Row(step, 1 - 0.05 * step) for step in every]
        rows["code/cost/tokens_per_solved"] = [Row(step, 1000.0 / step) for step in every]
    settings = {"algorithm.kl.coef": "0.1" if variant == "tight" else "0.01", "rollout.n": "8", "train.seed": str(seed)}
    return ChildRows(f"{variant}{seed}" * 4, f"leash-{variant}-seed{seed}", variant, seed, "FINISHED", "abc", settings,
                     rows)  # fmt: skip


def ablation(code: bool = False, **changes: object) -> AblationRows:
    children = [child(variant, seed, FINAL[variant][seed], code=code) for variant in FINAL for seed in (0, 1, 2)]
    found = AblationRows("sqlite:///x", "leash", "7", "parent", ABLATION, "", children, [])
    return replace(found, **changes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn in tests of the whole file alone: they take most of the time that a report takes."""
    drawn = (test_the_page_is_made_again_of_its_rows, test_the_file_needs_nothing_from_outside,
             test_the_same_rows_give_the_same_file, test_one_seed_or_none_makes_a_report_without_a_claim)  # fmt: skip
    if request.function not in drawn:
        for draw in ("curves", "verdict_areas"):
            monkeypatch.setattr(f"ares.ablations.report.{draw}", lambda *_, **__: "<svg/>")


class Page(HTMLParser):
    """Text of every table row, and every address that something is loaded from."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.loaded: list[str] = []
        self.cell: list[str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = []
        self.loaded += [str(found[name]) for name in ("src", "srcset", "poster") if name in found]
        if tag == "link":
            self.loaded.append(str(found.get("href")))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self.cell is not None:
            self.rows[-1].append(" ".join("".join(self.cell).split()))
            self.cell = None

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.append(data)


def test_links_lead_to_the_page_that_is_there_and_nowhere_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_MLFLOW_PAGE", "http://127.0.0.1:5100")
    assert 'href="http://127.0.0.1:5100/#/experiments/7/runs/' in render(ablation(), "rows.csv")
    monkeypatch.delenv("ARES_MLFLOW_PAGE")
    page = render(ablation(), "rows.csv")
    assert "/#/experiments/" not in page
    assert "No page of MLflow was up" in page


def test_what_reward_functions_said_is_in_the_table() -> None:
    found = ablation()
    for of in found.children:
        of.rows |= {name: [Row(8, 0.25)] for name in ("rewards/brief/mean", "rewards/brief/std", "val/rewards/f/mean")}
    titles = [row[0] for row in Page(render(found, "rows.csv")).rows if row]
    for title in ("training reward brief", "held-out reward f"):
        assert sum(title in each for each in titles) == 1


def test_each_of_several_held_out_sets_is_in_the_table() -> None:
    found = ablation()
    for of in found.children:
        of.rows |= {f"val/{name}": [Row(8, 0.25)] for name in ("level1/accuracy", "level1/response_length")}
    titles = [row[0] for row in Page(render(found, "rows.csv")).rows if len(row) == 3]
    assert "held-out accuracy, level1value at the last step" in titles
    assert "held-out response length, level1 (tokens)value at the last step" in titles


def test_every_figure_of_the_table_is_made_of_rows_that_are_in_the_csv() -> None:
    found = ablation(code=True)
    page = Page(render(found, "report.csv"))
    text = rows_csv(found)
    body = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# "))
    stored = {
        (f"{line['variant']}{line['seed']}" * 4, metric, int(line["step"])): float(line[metric])
        for line in csv.DictReader(io.StringIO(body))
        for metric in line
        if "/" in metric and line[metric]
    }
    traced = [row for row in page.rows if len(row) == 7 and row[2].startswith("experiments/7/runs/")]
    known = {measure.title: measure for measure in [*measures("val/accuracy", True), *error_measures()]}
    shown = {row[0]: row for row in page.rows if len(row) == 3}
    by_measure: dict[tuple[str, str], list[float]] = {}
    for variant, _, link, metric, steps, count, value in traced:
        first, _, last = steps.partition("–")
        used = [
            stored[link.rpartition("/")[2], metric, step]
            for step in range(int(first), int(last or first) + 1)
            if (link.rpartition("/")[2], metric, step) in stored
        ]
        assert len(used) == int(count)
        total = sum(used)
        summed = metric in ("timing_s/step", "perf/total_num_tokens")
        if (metric, first) == ("val/accuracy", "0"):  # over tokens: 400 of them from each evaluation to the next
            assert float(value) == pytest.approx((used[0] / 2 + used[1] + used[2] / 2) / 2)
        else:
            assert float(value) == pytest.approx(total if summed else total / len(used))
        by_measure.setdefault((metric, variant), []).append(float(value))
    assert {metric for metric, _ in by_measure} == set(found.children[0].rows)

    for title in ("groups kept by the filter", "tokens per solved problem", "wrong answer"):
        measure = known[title]
        cells = shown[f"{title}{measure.rule}"][1:]
        for variant, cell in zip(FINAL, cells, strict=True):
            expected = estimate(by_measure[measure.metric, variant])
            assert expected.low is not None
            assert expected.high is not None
            low, high = figure(expected.low, measure.digits), figure(expected.high, measure.digits)
            assert cell == f"{figure(expected.mean, measure.digits)} [{low}, {high}]"


def paired_ablation() -> AblationRows:
    """Against loose, with the held-out accuracies of ten problems, of which every seed solves the same share."""
    found = ablation(definition=ABLATION.model_copy(update={"baseline": "loose"}))
    for of in found.children:
        of.problems = {row.step: {f"p{n}": row.value + 0.01 * (n % 2 - 0.5) for n in range(10)}
                       for row in of.rows["val/accuracy"]}  # fmt: skip
    return found


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


def test_variants_that_share_nothing_are_compared_as_strangers() -> None:
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
    """Accuracies of tight by seed, and what share of loose's tokens it needs on the easy set; on the hard set all."""
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


def test_the_page_is_made_again_of_its_rows(tmp_path: Path) -> None:
    for number, made in enumerate((paired_ablation(), ablation(code=True))):
        html, rows, *others = write_report(made, tmp_path / f"report{number}.html")
        names = [f"report{number}-problems.csv", f"report{number}.svg"] if made.definition.baseline else []
        assert [file.name for file in others] == names
        before = html.read_bytes()
        write_page(read_csv(rows), html, rows)
        assert html.read_bytes() == before


def test_a_file_that_holds_no_rows_is_told(tmp_path: Path) -> None:
    for text in ("", "a,b\n1,2\n", "# {\n"):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(ConfigError, match=r"x\.csv: not the rows of an ablation"):
            read_csv(tmp_path / "x.csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_csv(tmp_path / "absent.csv")


def test_the_file_needs_nothing_from_outside(tmp_path: Path) -> None:
    html, rows = write_report(ablation(code=True), tmp_path / "report.html")
    page = Page(html.read_text())
    assert len(page.loaded) == 3  # the compared metric, the other curves, the verdicts
    assert all(address.startswith("data:image/svg+xml;base64,") for address in page.loaded)
    assert "@import" not in html.read_text()
    assert "url(" not in html.read_text()
    assert rows.name == "report.csv"


def test_the_same_rows_give_the_same_file() -> None:
    assert render(ablation(), "report.csv") == render(ablation(), "report.csv")


def test_a_winner_is_named_only_where_intervals_separate() -> None:
    assert conclusion(ablation()).startswith("tight wins on val/accuracy: its interval, 0.813 [0.775, 0.851]")
    close = ablation()
    close.children[0] = child("loose", 0, 0.9)
    assert conclusion(close).startswith("No winner can be named.")
    fewer = ablation(definition=ABLATION.model_copy(update={"maximise": False}))
    assert conclusion(fewer).startswith("loose wins on val/accuracy")


def test_what_separates_besides_is_marked_in_the_table() -> None:
    found = lines(ablation(), measures("val/accuracy", True), "m")
    clear = {line.measure.title: [variant for variant, cell in line.cells.items() if cell.best] for line in found}
    assert clear["val/accuracy"] == ["tight"]
    assert clear["groups kept by the filter"] == []  # the same in both
    assert clear["response length (tokens)"] == []  # told, not judged


def test_a_child_that_is_not_finished_is_left_out_and_told_of() -> None:
    found = ablation()
    found.children[5] = replace(child("tight", 2, 0.1, steps=4), status="RUNNING")
    assert compared_step(found) == 8
    assert "leash-tight-seed2 (last row at step 4, RUNNING)" in render(found, "report.csv")
    line = lines(found, measures("val/accuracy", True), "m")[0]
    assert [value.value for value in line.cells["tight"].values] == FINAL["tight"][:2]
    del found.children[5]
    assert "Not in MLflow: tight, seed 2." in render(found, "report.csv")


def test_one_seed_or_none_makes_a_report_without_a_claim() -> None:
    single = ablation(children=[child("loose", 0, 0.6), child("tight", 0, 0.9)])
    html = render(single, "report.csv")
    assert "No winner can be named: an interval needs two seeds" in html
    assert "one seed" in html
    assert "Nothing can be compared yet" in render(ablation(children=[]), "report.csv")


def test_parts_without_rows_are_left_out() -> None:
    assert "Verdicts over time" not in render(ablation(), "report.csv")
    html = render(ablation(code=True), "report.csv")
    assert "Verdicts over time" in html
    assert "tokens per solved problem" in html


def test_what_was_compared_is_told_by_the_settings_that_differ() -> None:
    page = Page(render(ablation(), "report.csv"))
    assert ["algorithm.kl.coef", "0.01", "0.1"] in page.rows
    assert not any(row[:1] in (["rollout.n"], ["train.seed"]) for row in page.rows)


def test_names_are_text_and_not_html() -> None:
    found = ablation(command_line="data.train=<script>alert(1)</script>")
    assert "<script>alert" not in render(found, "report.csv")


def test_a_value_that_is_not_a_number_is_no_value() -> None:
    broken = child("loose", 0, 0.6)
    broken.rows["filter/kept_share"][-1] = Row(8, float("nan"))
    kept = next(measure for measure in measures("val/accuracy", True) if measure.metric == "filter/kept_share")
    assert value_of(kept, broken, 8) is None
    assert value_of(kept, child("loose", 1, 0.6), 8) is not None


@pytest.mark.parametrize(
    ("value", "digits", "text"), [(-0.0001, 3, "0.000"), (12345.678, 1, "12 345.7"), (2.0, 0, "2")]
)
def test_numbers_are_written_plainly(value: float, digits: int, text: str) -> None:
    assert figure(value, digits) == text


def test_rows_are_read_from_mlflow_newest_entry_and_last_row_first(tmp_path: Path) -> None:
    uri = mlflow_database.beside(tmp_path)
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("leash", artifact_location=(tmp_path / "artifacts").as_uri())
    with pytest.raises(TrackingError, match="has no experiment 'lash'"):
        read_rows("lash", uri)
    with pytest.raises(TrackingError, match="holds no ablation"):
        read_rows("leash", uri)
    definition = ABLATION.model_dump_json()
    parent = client.create_run(experiment, start_time=1, tags={DEFINITION: definition}).info.run_id

    def entry(seed: int, start: int, rows: list[Metric]) -> str:
        tags = {"mlflow.parentRunId": parent, "ares.variant": "tight", "ares.seed": str(seed)}
        run_id = client.create_run(experiment, start, tags, run_name=f"leash-tight-seed{seed}").info.run_id
        client.log_batch(run_id, metrics=rows)
        client.log_dict(run_id, {"p0": 0.5, "p1": 1.0}, "problems/000000.json")
        return str(run_id)

    entry(1, 2, [Metric("val/accuracy", 0.1, 10, 0)])
    again = entry(1, 3, [Metric("val/accuracy", 0.2, 20, 0), Metric("val/accuracy", 0.3, 30, 0)])
    other = entry(0, 4, [Metric("val/accuracy", 0.5, 40, 0)])
    client.create_run(experiment, 5, run_name="a single run of the same experiment")

    found = read_rows("leash", uri)
    assert (found.run_id, found.definition) == (parent, ABLATION)
    assert [(each.run_id, each.seed) for each in found.children] == [(other, 0), (again, 1)]
    assert found.children[1].rows == {"val/accuracy": [Row(0, 0.3)]}
    assert found.children[1].problems == {0: {"p0": 0.5, "p1": 1.0}}
    assert found.repeated == ["leash-tight-seed1"]
    assert re.search("Trained more than once, the newest entry counts: leash-tight-seed1", render(found, "report.csv"))


def test_what_was_decided_before_the_first_child_started_stays(tmp_path: Path) -> None:
    check_fixed(ABLATION, tmp_path)
    (tmp_path / "ablation.json").write_text('{"name": "leash", "mlflow_run_id": "x"}')  # of before 2026-11-23
    check_fixed(ABLATION, tmp_path)
    (tmp_path / "ablation.json").write_text(json.dumps({"mlflow_run_id": "x", **ABLATION.fixed}))
    check_fixed(ABLATION, tmp_path)
    for change in ({"primary": "val/pass_at_n"}, {"maximise": False}, {"baseline": "tight"}, {"no_worse": {"x": 0.1}},
                   {"interaction": ("x", "y")}):  # fmt: skip
        with pytest.raises(ConfigError, match=f"{next(iter(change))}: .* → "):
            check_fixed(ABLATION.model_copy(update=change), tmp_path)
