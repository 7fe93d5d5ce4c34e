"""The report agrees with the rows, and every number in it can be found among them."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric

from ares.ablations.comparison import conclusion
from ares.ablations.measures import (
    compared_step,
    error_measures,
    measures,
    value_of,
)
from ares.ablations.plots import verdict_areas
from ares.ablations.report import figure, lines, render, write_page, write_report
from ares.ablations.rows import ChildRows, Row, read_rows
from ares.ablations.statistics import estimate
from ares.ablations.tables import read_csv, rows_csv
from ares.ablations.tracking import DEFINITION, TrackingError, check_fixed
from ares.config import ConfigError
from tests import mlflow_database
from tests.ares.ablations.example_rows import ABLATION, FINAL, Page, ablation, child, paired_ablation


@pytest.fixture(autouse=True)
def _pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn only in tests of the whole file: they take most of a report's time."""
    drawn = (test_the_page_is_made_again_of_its_rows, test_the_file_needs_nothing_from_outside,
             test_the_same_rows_give_the_same_file, test_one_seed_or_none_makes_a_report_without_a_claim)  # fmt: skip
    if request.function not in drawn:
        for draw in ("curves", "verdict_areas"):
            monkeypatch.setattr(f"ares.ablations.report.{draw}", lambda *_, **__: "<svg/>")


def test_a_variant_that_ended_before_any_verdict_does_not_end_the_report() -> None:
    """Its plot of verdicts had nothing to draw, and the whole report was lost."""
    found = ablation(code=True)
    children: dict[str, list[ChildRows]] = {"loose": found.of("loose"), "tight": found.of("tight")}
    whole = verdict_areas(children, 1)
    for of in children["tight"]:
        of.rows = {"perf/total_num_tokens": [Row(0, 100.0)]}
    assert 0 < len(verdict_areas(children, 1)) < len(whole)
    assert verdict_areas({"tight": children["tight"]}, 1) == ""


def test_links_lead_to_the_running_page_and_are_absent_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_every_number_in_the_table_comes_from_rows_in_the_csv() -> None:
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


def test_the_page_is_made_again_of_its_rows(tmp_path: Path) -> None:
    for number, made in enumerate((paired_ablation(), ablation(code=True))):
        html, rows, *others = write_report(made, tmp_path / f"report{number}.html")
        names = [f"report{number}-problems.csv", f"report{number}.svg"] if made.definition.baseline else []
        assert [file.name for file in others] == names
        before = html.read_bytes()
        write_page(read_csv(rows), html, rows)
        assert html.read_bytes() == before


def test_a_file_that_holds_no_report_rows_is_an_error(tmp_path: Path) -> None:
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


def test_an_unfinished_child_is_left_out_and_reported() -> None:
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


def test_what_was_compared_is_shown_by_the_settings_that_differ() -> None:
    page = Page(render(ablation(), "report.csv"))
    assert ["algorithm.kl.coef", "0.01", "0.1"] in page.rows
    assert not any(row[:1] in (["rollout.n"], ["train.seed"]) for row in page.rows)


def test_names_are_text_and_not_html() -> None:
    found = ablation(command_line="data.train=<script>alert(1)</script>")
    assert "<script>alert" not in render(found, "report.csv")


def test_a_value_that_is_not_a_number_counts_as_missing() -> None:
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
