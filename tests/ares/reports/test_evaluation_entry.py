"""An evaluation in MLflow: found again, never logged twice, under the run whose weights it measured."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as Entry

from ares.evaluation import Evaluation, EvaluationRequest
from ares.evaluation.estimates import summarise
from ares.reports import log_evaluation, log_rescore
from ares.runs.description import model_digests
from ares.store import RunStore
from tests import mlflow_database
from tests.ares.builders import MODEL, config
from tests.ares.data.code_rows import MBPP, written
from tests.ares.store_builders import chain


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARES_RUNS", str(tmp_path / "runs"))
    mlflow_database.beside(tmp_path / "runs")
    return tmp_path / "runs"


def client(runs: Path) -> MlflowClient:
    return MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")


def entries(runs: Path, name: str = "ares") -> list[Entry]:
    experiment = client(runs).get_experiment_by_name(name)
    return list(client(runs).search_runs([experiment.experiment_id]))


@pytest.fixture
def evaluation(runs: Path) -> Evaluation:
    """Of two problems of a suite, its sandbox closed again."""
    file = written(runs / "mbpp.jsonl", MBPP, {**MBPP, "task_id": 12, "text": "Write add once more."})
    model = str(MODEL.parent / "code")
    opened = Evaluation.open(EvaluationRequest(target=model, suite="mbpp", data=str(file), n=2, k=[1, 2]))
    opened.run.close()
    return opened


def found(evaluation: Evaluation, accuracies: list[float]) -> dict[str, Any]:
    """The summary of two samples of each problem, with the files of a finished evaluation."""
    ids = evaluation.run.train_set.frame["id"].repeat(2).tolist()
    evaluation.run.train_set.frame["base_tests"] = 1
    outcomes = [["accepted", "accepted" if right else "timeout"] for right in accuracies]
    samples = pd.DataFrame({"id": ids, "sample": [0, 1, 0, 1], "tokens": 9, "truncated": False, "accuracy": accuracies})
    samples["test_outcomes"] = outcomes
    samples["error_type"] = ["accepted" if right else "timeout" for right in accuracies]
    summary, problems = summarise(evaluation, samples)
    evaluation.run.store.write_rows("problems.parquet", problems)
    evaluation.run.store.write_json("summary.json", summary)
    return summary


def test_an_entry_has_settings_estimates_and_the_table_of_problems(
    runs: Path, evaluation: Evaluation, tmp_path: Path
) -> None:
    log_evaluation(evaluation, found(evaluation, [1, 0, 0, 0]))
    (entry,) = entries(runs)
    assert (entry.info.run_name, entry.info.status) == (evaluation.run.store.directory.name, "FINISHED")
    assert entry.data.tags["mlflow.source.name"] == "ares eval"
    told = {name: entry.data.params[f"eval.{name}"] for name in ("suite", "form", "samples", "temperature")}
    assert told == {"suite": "mbpp", "form": "instruct", "samples": "2", "temperature": "1.0"}
    assert entry.data.params["rollout.max_response_length"] == "768"
    metrics = entry.data.metrics
    assert (metrics["eval/pass_at_1"], metrics["eval/pass_at_2"]) == (0.25, 0.5)
    assert metrics["eval/base/pass_at_1"] == 1.0
    assert metrics["eval/pass_at_1_low"] <= 0.25 <= metrics["eval/pass_at_1_high"]
    assert metrics["eval/error/timeout"] == 0.75
    table = client(runs).download_artifacts(entry.info.run_id, "problems.parquet", str(tmp_path))
    assert pd.read_parquet(table)["pass@1"].tolist() == [0.5, 0.0]
    (used,) = entry.inputs.dataset_inputs
    assert used.dataset.digest == evaluation.description["data"][:36]


def test_the_same_evaluation_keeps_its_entry_and_adds_only_what_is_new(runs: Path, evaluation: Evaluation) -> None:
    summary = found(evaluation, [1, 0, 0, 0])
    for again in (summary, summary, summary | {"comparison": {}}, found(evaluation, [1, 1, 0, 0])):
        log_evaluation(evaluation, again)
    (entry,) = entries(runs)
    history = client(runs).get_metric_history(entry.info.run_id, "eval/pass_at_1")
    assert [row.value for row in history] == [0.25, 0.5]
    client(runs).delete_run(entry.info.run_id)
    log_evaluation(evaluation, summary)
    (other,) = entries(runs)
    assert other.info.run_id != entry.info.run_id
    assert other.data.metrics["eval/pass_at_1"] == 0.25


def test_an_evaluation_of_a_run_is_an_entry_under_the_runs(runs: Path) -> None:
    store = RunStore(runs / "first")
    settings = config("tracking.samples=0").model_dump(mode="json")
    description = {"config": settings, "digests": model_digests(str(MODEL)), "mlflow_run_id": "f" * 32}
    store.write_run(description)
    chain(store, 1)
    evaluation = Evaluation.open(EvaluationRequest(target="first", step=0, n=2, max_problems=2))
    log_evaluation(evaluation, found(evaluation, [1, 0, 0, 0]))
    (entry,) = entries(runs, "tiny-math")  # the run's
    assert entry.data.tags["mlflow.parentRunId"] == "f" * 32
    assert entry.data.params["eval.target"] == "first"


def test_samples_judged_again_are_an_entry_under_the_runs_and_each_step_is_logged_once(runs: Path) -> None:
    store, settings = RunStore(runs / "first"), config("tracking.samples=0")
    store.write_run(
        {"config": settings.model_dump(mode="json"), "digests": {}, "mlflow_run_id": "f" * 32, "code_version": "1"}
    )
    chain(store, 3)
    store.write_rows("rescores/0a/000001.parquet", pd.DataFrame({"id": ["a"], "accuracy": [0.0]}))
    steps = [{"step": step, "changed": step + 1, "differs": True} for step in range(3)]
    for some in (steps[1:2], steps, steps):
        log_rescore(store, settings, "rescores/0a", some)
    (entry,) = entries(runs, "tiny-math")
    assert (entry.info.run_name, entry.data.tags["mlflow.parentRunId"]) == ("first judged again", "f" * 32)
    history = client(runs).get_metric_history(entry.info.run_id, "rescore/changed")
    assert sorted((row.step, row.value) for row in history) == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert [file.path for file in client(runs).list_artifacts(entry.info.run_id) if file.path[0] == "0"] == [
        "000001.parquet"
    ]


def test_an_mlflow_that_is_down_is_reported_and_the_next_call_logs_it(
    runs: Path, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    summary = found(evaluation, [1, 0, 0, 0])
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    log_evaluation(evaluation, summary)
    assert "MLflow at http://127.0.0.1:9 is away" in caplog.text
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    log_evaluation(evaluation, summary)
    (entry,) = entries(runs)
    assert json.loads((evaluation.run.store.directory / "mlflow.json").read_text())["run_id"] == entry.info.run_id
