"""The report agrees with the rows, and every number in it can be found among them."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.ablations.comparison import RULES, find_numbers, list_measures
from ares.ablations.definition import read_ablation
from ares.ablations.plots import draw_curves
from ares.ablations.report import format_number, render, write_report, write_tables
from ares.ablations.rows import AblationRows, problems_path, read_csv, read_rows
from ares.ablations.tracking import ParentRun, check_fixed, complete_entry
from ares.ablations.wording import conclude
from ares.config import ConfigError, load
from ares.evaluation import estimate
from ares.store import RunStore
from tests import mlflow_database
from tests.ares.ablations.example_rows import ABLATION, FINAL, Page, ablation, child, children_of, paired_ablation
from tests.ares.reports.test_mlflow import entry_of, opened
from tests.ares.store_builders import commit

RESULTS = Path(__file__).parents[3] / "docs" / "results"


Report = tuple[AblationRows, list[Path]]
ADDED = {
    "rewards/brief/mean": "training reward briefmean over the last 25% of steps, exploratory",
    "val/rewards/f/mean": "held-out reward fvalue at the last step, exploratory",
    "val/level1/accuracy": "held-out accuracy, level1value at the last step, exploratory",
    "val/level1/response_length": "held-out response length, level1 (tokens)value at the last step, exploratory",
}
"""Metrics of reward functions and of held-out sets with names, and their lines in the table."""


@pytest.fixture(scope="module", autouse=True)
def _without_curves() -> Iterator[None]:
    """They take most of a report's time; one test draws them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARES_MLFLOW_PAGE", "http://127.0.0.1:5100")
        patch.setattr("ares.ablations.report.draw_curves", lambda *_, **__: "<svg/>")
        yield


@pytest.fixture(scope="module")
def plain() -> str:
    """The page of an ablation without programs and without a page of MLflow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ARES_MLFLOW_PAGE")
        return render(ablation(), "rows.csv")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """An ablation with everything that a report may hold, and the report's files."""
    besides = {"no_worse": {"val/accuracy": 0.02}, "interaction": ("val/accuracy", "val/accuracy")}
    found = paired_ablation(
        code=True, definition=ABLATION.model_copy(update=besides), command_line="data.train=<script>alert(1)</script>"
    )
    found.rows.loc[("loose", 0, 8), "val/accuracy"] = math.nan  # as of a child that diverged
    found.rows.loc[found.rows.index.get_level_values("step") == 8, list(ADDED)] = 0.25
    return found, write_report(found, tmp_path_factory.mktemp("report") / "report.html")


def test_the_page_shows_what_was_compared_and_leaves_out_what_is_not_there(plain: str, whole: Report) -> None:
    full, rows = whole[1][0].read_text(), Page(plain).rows
    assert 'href="http://127.0.0.1:5100/#/experiments/7/runs/' in full
    assert "/#/experiments/" not in plain
    assert "No page of MLflow was up" in plain
    for title in ("tokens per solved problem", "with outcome wrong_answer"):
        assert (title in full, title in plain) == (True, False)
    assert ["algorithm.kl.coef", "0.01", "0.1"] in rows
    assert not any(row[:1] in (["rollout.n"], ["train.seed"]) for row in rows)


def test_every_number_in_the_table_comes_from_rows_in_the_csv(whole: Report) -> None:
    found, (html, rows, *_) = whole
    page, stored = Page(html.read_text()), read_csv(rows)
    values = {measure: find_numbers(stored, measure) for measure in list_measures("val/accuracy", stored.logged)}
    by_title = {measure.title: measure for measure in values}
    traced = [row for row in page.rows if len(row) == 8 and row[3].startswith("experiments/7/runs/")]
    for title, variant, seed, link, metric, _, _, value in traced:
        assert (link.rpartition("/")[2], metric) == (f"{variant}{seed}" * 4, by_title[title].metric)
        assert float(value) == pytest.approx(values[by_title[title]][variant, int(seed)])
    assert {row[4] for row in traced} == found.logged
    shown = {row[0]: row[1:] for row in page.rows if len(row) == 3}
    assert shown.keys() >= set(ADDED.values())
    for measure, of in values.items():
        (cells,) = (cells for name, cells in shown.items() if name.startswith(f"{measure.title}{RULES[measure.how]}"))
        for variant, cell in zip(FINAL, cells, strict=True):
            expected = estimate(of[variant].tolist())
            mean, low, high = (format_number(value or 0.0, measure.digits)
                               for value in (expected.mean, expected.low, expected.high))  # fmt: skip
            assert cell.startswith(f"{mean}[{low}, {high}]")


def test_the_page_is_made_again_of_its_rows(whole: Report) -> None:
    made, (html, rows, *others) = whole
    assert [file.name for file in others] == ["report-problems.csv", "report.svg"]
    before = [file.read_bytes() for file in (html, rows, *others)]
    assert conclude(read_csv(rows)) == conclude(made)
    assert [file.read_bytes() for file in write_report(read_csv(rows), html)] == before


@pytest.mark.parametrize(
    ("study", "told"),
    [
        ("aepo", "without_relaxation is better: -6.179 [-10.657, -1.701], p 0.049"),
        ("smollm2-aepo", "aepo is worse: -0.137 [-0.176, -0.099], over problems too [-0.180, -0.097], p 0.013"),
        ("math-kl", "none -0.023 [-0.036, -0.010], over problems too [-0.047, +0.000], p 0.109, not shown (more held-"),
        ("murphy-end", "max is better: +0.301 [+0.250, +0.352], p 0.000. val/accuracy, by at most 0.03 lower"),
    ],
)
def test_recorded_studies_are_read_and_written_as_they_are(study: str, told: str) -> None:
    """docs/results.md tells their verdicts."""
    file = RESULTS / f"{study}.csv"
    stored = read_csv(file)
    tables = {each: each.read_text(encoding="utf-8") if each.exists() else "" for each in (file, problems_path(file))}
    assert write_tables(stored, file) == tables
    assert told in conclude(stored)


def test_a_file_that_holds_no_report_rows_is_an_error(tmp_path: Path) -> None:
    for text in ("", "a,b\n1,2\n", "# {\n"):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(ConfigError, match=r"x\.csv: not the rows of an ablation"):
            read_csv(tmp_path / "x.csv")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_csv(tmp_path / "absent.csv")


def test_the_file_needs_nothing_from_outside_and_names_are_text(whole: Report) -> None:
    html = whole[1][0].read_text()
    loaded = Page(html).loaded
    assert len(loaded) == 3  # the differences, the compared metric, the other curves
    assert all(address.startswith("data:image/svg+xml;base64,") for address in loaded)
    assert "@import" not in html
    assert "url(" not in html
    assert "<script>alert" not in html


def test_an_unfinished_child_is_left_out_and_named() -> None:
    children = children_of(ablation())
    children |= {("tight", 2): child("tight", 2, 0.1, steps=4), ("loose", 2): pd.DataFrame()}
    found = ablation(children=children)
    assert find_numbers(found, list_measures("val/accuracy", [])[0])["tight"].tolist() == FINAL["tight"][:2]
    page = render(found, "report.csv")
    for named in ("leash-tight-seed2 (last row at step 4)", "leash-loose-seed2 (no row yet)"):
        assert named in page


def test_one_seed_or_none_makes_a_report_without_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.ablations.report.draw_curves", draw_curves)
    single = ablation(children={(variant, 0): child(variant, 0, 0.6) for variant in FINAL})
    single.rows.loc[("tight", 0, 8), "val/accuracy"] = 0.9
    html = render(single, "report.csv")
    assert "tight +0.300, not shown: there is only one seed" in html
    assert "one seed" in html
    assert "Nothing can be compared with loose yet" in render(ablation(children={}), "report.csv")


@pytest.mark.parametrize(
    ("value", "digits", "text", "signed"),
    [(-0.0001, 3, "0.000", "0.000"), (12345.678, 1, "12 345.7", "+12 345.7"), (2.0, 0, "2", "+2"),
     (-2.5, 1, "-2.5", "-2.5")],
)  # fmt: skip
def test_numbers_are_written_plainly(value: float, digits: int, text: str, signed: str) -> None:
    assert (format_number(value, digits), format_number(value, digits, "+")) == (text, signed)


def test_rows_are_read_from_the_childrens_commits(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no ablation 'lash' .* \(known: none\)"):
        read_rows("lash", tmp_path)
    started = STARTED | {"definition": ABLATION.model_dump_json(), "command_line": "rollout.n=4"}
    RunStore(tmp_path / "leash").write_json("ablation.json", started)
    config = load("tiny-math", ["rollout.n=4"]).model_dump(mode="json")
    config["reward"]["code"]["verdicts"] = "/the/ablation's"  # which earlier versions set in every child
    for seed, entry in ((1, "abc"), (0, None)):
        store = RunStore(tmp_path / f"leash-tight-seed{seed}")
        store.write_run({"config": config, "digests": {}, "mlflow_run_id": entry, "code_version": "9"})
    evaluated = pd.DataFrame({"id": ["p0", "p0", "p1", "p1"], "accuracy": [0.0, 1.0, 1.0, None]})
    artifacts = {"evaluation": RunStore(tmp_path / "leash-tight-seed1").write_rows("evaluation.parquet", evaluated)}
    metrics = {"val/accuracy": 0.75}
    RunStore(tmp_path / "leash-tight-seed1").write_commit(
        commit(0, None, artifacts=artifacts, metrics=metrics, timings={})
    )

    found = read_rows("leash", tmp_path)
    assert (found.run_id, found.definition, found.command_line) == ("parent", ABLATION, "rollout.n=4")
    assert [(child, about["run_id"]) for child, about in found.children.items()] == [
        (("tight", 0), None), (("tight", 1), "abc"),
    ]  # fmt: skip
    assert found.rows.to_dict("index") == {("tight", 1, 0): metrics}
    assert found.problems.to_dict("index") == {("tight", 1, 0): {"p0": 0.5, "p1": 1.0}}
    (tmp_path / "leash-tight-seed1" / "evaluation.parquet").unlink()
    lost = read_rows("leash", tmp_path)
    assert (lost.rows.to_dict("index"), lost.problems.size) == ({("tight", 1, 0): metrics}, 0)
    with pytest.raises(ConfigError, match=r"holds no ablation 'lash' .* \(did you mean leash\?\)"):
        read_rows("lash", tmp_path)


def test_variants_keep_the_order_of_the_file(tmp_path: Path) -> None:
    """The first one is the baseline, also of a report, and when the ablation is started again."""
    mlflow_database.beside(tmp_path)
    config = load("tiny-math", [f"tracking.uri=sqlite:///{tmp_path / 'mlflow.db'}"])
    file = tmp_path / "leash.yaml"
    file.write_text("{name: leash, profile: tiny-math, variants: {tight: [], loose: []}, seeds: [0, 1]}")
    for _ in range(2):
        started, _ = read_ablation(str(file))
        check_fixed(started, tmp_path / "leash")
        ParentRun(started, config, tmp_path / "leash", [])
    found = read_rows("leash", tmp_path).definition
    assert (list(found.variants), found.against) == (["tight", "loose"], "tight")


STARTED = {"command_line": "", "mlflow_uri": "sqlite:///x", "mlflow_experiment_id": "7", "mlflow_run_id": "parent"}


def start(folder: Path, metrics: dict[str, float], **stored: object) -> None:
    """The folder of a started ablation, and a child with the metrics of one step."""
    RunStore(folder).write_json("ablation.json", stored)
    child = RunStore(folder.with_name("leash-tight-seed0"))
    config = load("tiny-math").model_dump(mode="json")
    child.write_run({"config": config, "digests": {}, "mlflow_run_id": None, "code_version": "9"})
    child.write_commit(commit(0, None, metrics=metrics))


def test_what_was_decided_before_the_first_child_started_stays(tmp_path: Path) -> None:
    folder = tmp_path / "leash"
    check_fixed(ABLATION, folder)
    start(folder, {"val/accuracy": 0.5}, **STARTED, definition=ABLATION.model_dump_json())
    check_fixed(ABLATION, folder)
    for change in ({"primary": "val/pass_at_n"}, {"maximise": False}, {"baseline": "tight"}, {"no_worse": {"x": 0.1}},
                   {"interaction": ("x", "y")}, {"equal_tokens": 900}):  # fmt: skip
        with pytest.raises(ConfigError, match=f"{next(iter(change))}: .* → "):
            check_fixed(ABLATION.model_copy(update=change), folder)


@pytest.mark.parametrize("left", [{"variants": {"loose": [], "other": []}}, {"seeds": [1, 2]}])
def test_what_has_begun_stays_in_the_comparison(left: dict[str, Any], tmp_path: Path) -> None:
    """Left out after a look at the results, a variant made the others need smaller differences for a claim."""
    folder, more = tmp_path / "leash", {"variants": {**ABLATION.variants, "more": []}, "seeds": [0, 1, 2]}
    begun, other = ABLATION.model_copy(update=more), ABLATION.model_copy(update={**more, **left})
    RunStore(folder).write_json("ablation.json", STARTED | {"definition": begun.model_dump_json()})
    check_fixed(other, folder)
    start(folder, {"m": 0.5}, **STARTED, definition=begun.model_dump_json())
    check_fixed(begun, folder)
    with pytest.raises(ConfigError, match="leash-tight-seed0 has begun, and is left out"):
        check_fixed(other, folder)


@pytest.mark.parametrize(
    ("mistyped", "corrected"),
    [
        ({"primary": "x"}, {"primary": "m"}),
        ({"primary": "area/x"}, {"primary": "area/m"}),
        ({"no_worse": {"m": 0.1, "x": 0.1}}, {"no_worse": {"m": 0.1, "y": 0.1}}),
        ({"interaction": ("m", "x")}, {"interaction": ("m", "y")}),
    ],
)
def test_only_a_metric_that_was_never_logged_can_be_corrected(
    mistyped: dict[str, Any], corrected: dict[str, Any], tmp_path: Path
) -> None:
    """After the last step of the last child a mistyped one could neither be compared nor corrected."""
    started, folder = ABLATION.model_copy(update=mistyped), tmp_path / "leash"
    start(folder, {"m": 0.5}, **STARTED, definition=started.model_dump_json())
    check_fixed(ABLATION.model_copy(update=corrected), folder)
    for other in ({"no_worse": {"m": 0.2, "y": 0.1}}, {"no_worse": {"y": 0.1}}, {"maximise": False}):
        with pytest.raises(ConfigError, match=f"{next(iter(other))}: .* → "):
            check_fixed(ABLATION.model_copy(update=corrected | other), folder)
    start(folder, {"m": 0.5, "x": 0.5}, **STARTED, definition=started.model_dump_json())
    with pytest.raises(ConfigError, match=f"{next(iter(mistyped))}: .* → "):
        check_fixed(ABLATION.model_copy(update=corrected), folder)


GONE = "f" * 32


def test_a_childs_entry_that_is_gone_is_made_anew_at_the_end(tmp_path: Path) -> None:
    """It ended the ablation with a traceback, before its report."""
    tracking, client = opened(tmp_path, steps=2, mlflow_run_id=GONE)
    complete_entry(tracking.config, tracking.store, finished=True)
    entry = entry_of(tracking, client)
    assert (entry.info.status, entry.data.tags["ares.logged_commit"]) == ("FINISHED", tracking.store.digest(1))


def test_a_child_that_is_tracked_elsewhere_stays_out_of_mlflow(tmp_path: Path) -> None:
    tracking, client = opened(tmp_path, "tracking.kind=jsonl", steps=2)
    complete_entry(tracking.config, tracking.store, finished=True)
    assert tracking.store.read_run()["mlflow_run_id"] is None
    assert client.get_experiment_by_name("tracked") is None
