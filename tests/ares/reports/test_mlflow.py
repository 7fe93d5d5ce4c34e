"""What reaches MLflow when it only half works, or has lost a run; where its UI is."""

import json
import logging
import os
import shutil
import sqlite3
import subprocess
from getpass import getuser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run as Entry

from ares.reports.entry import origin
from ares.reports.mlflow import Tracking
from ares.reports.mlflow_internals import SAVED_VIEW, TRAINING, VIEW
from ares.store import mlflow_page, tracking_uri
from ares.store.store import RunStore
from tests import mlflow_database
from tests.ares.builders import config
from tests.ares.store_builders import chain, commit


def opened(runs: Path, *settings: str, steps: int = 0, **described: Any) -> tuple[Tracking, MlflowClient]:
    """The tracking of a run of so many steps, with MLflow's database beside it."""
    mlflow_database.beside(runs)
    given = config("tracking.experiment=tracked", "tracking.samples=0", *settings)
    store = RunStore(runs / "run")
    store.write_run({"code_version": "1", "mlflow_run_id": None} | described)
    chain(store, steps)
    return Tracking(given.tracking, given, store), MlflowClient(tracking_uri=tracking_uri(None, runs))


def again(tracking: Tracking) -> Tracking:
    """The tracking of the same run in another process."""
    return Tracking(tracking.settings, tracking.config, tracking.store)


def entry_of(tracking: Tracking, client: MlflowClient) -> Entry:
    return client.get_run(tracking.store.read_run()["mlflow_run_id"])


def steps_of(tracking: Tracking, client: MlflowClient) -> list[int]:
    """The steps of which a metric is logged."""
    return [row.step for row in client.get_metric_history(entry_of(tracking, client).info.run_id, "m")]


def test_a_run_logs_where_its_curves_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In Prefect's Logs tab. Without `workflowType` MLflow opened its page of traces."""
    monkeypatch.setenv("ARES_MLFLOW_PAGE", "http://127.0.0.1:5000")
    tracking, client = opened(tmp_path)
    with caplog.at_level(logging.INFO, "ares"):
        tracking.catch_up()
    info = entry_of(tracking, client).info
    there = f"http://127.0.0.1:5000/#/experiments/{info.experiment_id}/runs"
    beside = f"{there}?workflowType=machine_learning&viewStateShareKey=ares"
    assert f"run: curves at {there}/{info.run_id}, beside the others' at {beside}" in caplog.text


def test_an_mlflow_that_takes_entries_but_no_files_gets_one_entry_of_a_run(tmp_path: Path) -> None:
    tracking, client = opened(tmp_path)
    # Only through its server can files be put there.
    experiment = client.create_experiment("tracked", artifact_location="mlflow-artifacts:/half")
    for _ in range(3):
        again(tracking).catch_up()
    (entry,) = client.search_runs([experiment])
    assert tracking.store.read_run()["mlflow_run_id"] == entry.info.run_id
    assert "ares.logged_commit" not in entry.data.tags
    assert entry.data.params["rollout.n"] == "4"


def test_a_setting_that_is_there_with_another_value_stays_and_stops_nothing(tmp_path: Path) -> None:
    tracking, client = opened(tmp_path, steps=1)
    tracking.catch_up()
    client.delete_tag(entry_of(tracking, client).info.run_id, "ares.logged_commit")
    other = config("tracking.experiment=tracked", "tracking.samples=0", "rollout.n=2")
    Tracking(other.tracking, other, tracking.store).catch_up()
    entry = entry_of(tracking, client).data
    assert entry.params["rollout.n"] == "4"
    assert entry.tags["ares.logged_commit"] == tracking.store.digest(0)


@pytest.mark.parametrize("state", ["KILLED", "FAILED"])
def test_a_run_that_ended_early_is_shown_so_with_its_last_steps_until_it_is_resumed(state: str, tmp_path: Path) -> None:
    """The steps since the last report were left out."""
    tracking, client = opened(tmp_path, steps=2)
    for step in (2, 3):
        tracking = again(tracking)
        tracking.catch_up()
        assert entry_of(tracking, client).info.status == "RUNNING"
        tracking.store.write_commit(commit(step, tracking.store.last_commit()))
        tracking.interrupt(state)
        assert (entry_of(tracking, client).info.status, steps_of(tracking, client)) == (state, [*range(step + 1)])


def test_a_copied_run_gets_an_entry_of_its_own_and_a_moved_one_keeps_its(tmp_path: Path) -> None:
    """Both logged into the entry of the first; and a moved one got a new one when another had taken its place."""
    tracking, client = opened(tmp_path, steps=2)
    place, entries = tracking.store.directory, {}

    def log(name: str) -> None:
        run = Tracking(tracking.settings, tracking.config, RunStore(tmp_path / name))
        run.catch_up()
        entries[name] = entry_of(run, client).info.run_id
        assert steps_of(run, client) == [0, 1]

    log("run")
    shutil.copytree(place, tmp_path / "copy")
    log("copy")
    shutil.move(tmp_path / "copy", tmp_path / "moved")
    log("moved")
    shutil.move(place, tmp_path / "away")
    shutil.copytree(tmp_path / "away", place)
    first = entries["run"]
    RunStore(place).update_run(mlflow_run_id=None)  # a new run under the old name
    log("run")
    log("away")
    assert entries["copy"] == entries["moved"]
    assert len({first, entries["copy"], entries["run"]}) == 3
    assert entries["away"] == first


@pytest.mark.parametrize("tags", [TRAINING, SAVED_VIEW], ids=["kind", "view"])
def test_mlflows_page_knows_the_tags_that_open_an_experiment_on_its_curves(tags: dict[str, str]) -> None:
    """Its documentation does not promise them."""
    scripts = Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js"
    page = "".join(script.read_text(encoding="utf-8") for script in scripts.glob("*.js"))
    (name, value), *_ = tags.items()
    for word in (name.removesuffix(VIEW), *(["selectedColumns"] if value[0] == "{" else [value])):
        assert word in page


def test_a_database_that_is_locked_without_tables_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the run: MLflow lets the database's own error through."""
    folder = tmp_path / "without tables"
    folder.mkdir()
    tracking, _ = opened(tmp_path, f"tracking.uri=sqlite:///{folder / 'mlflow.db'}?timeout=0.1", steps=3)
    holder = sqlite3.connect(folder / "mlflow.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    tracking.catch_up()
    assert "is away, training continues: (sqlite3.OperationalError) database is locked" in caplog.text
    holder.execute("ROLLBACK")
    holder.close()
    tracking.catch_up()
    assert steps_of(tracking, MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")) == [0, 1, 2]


@pytest.mark.parametrize(("lost", "restarted"), [("deleted", False), ("unknown", True)])
def test_a_lost_entry_is_rebuilt(lost: str, restarted: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tracking, client = opened(tmp_path, steps=3)
    tracking.catch_up()
    store, first = tracking.store, entry_of(tracking, client).info.run_id
    if lost == "deleted":
        client.delete_run(first)
    else:
        store.write_run(store.read_run() | {"mlflow_run_id": "0" * 32})
    store.write_commit(commit(3, store.last_commit()))
    tracking = again(tracking) if restarted else tracking
    tracking.catch_up()
    tracking.catch_up()  # whoever noticed in the middle catches up the next time
    assert entry_of(tracking, client).info.run_id != first
    assert steps_of(tracking, client) == [0, 1, 2, 3]
    assert "it is made anew" in caplog.text


@pytest.mark.parametrize("restarted", [False, True])
def test_steps_that_were_redone_are_logged_again(
    restarted: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """MLflow kept the numbers of the past that was given up, alone: its tag said that these steps were logged."""
    tracking, client = opened(tmp_path, steps=4)
    tracking.catch_up()
    before = tracking.store.read_commit(0)
    for step in (1, 2):
        before = commit(step, before, metrics={"m": 0.75}, timestamp=2)
        tracking.store.write_commit(before)
    (again(tracking) if restarted else tracking).catch_up()
    entry = entry_of(tracking, client)
    history = client.get_metric_history(entry.info.run_id, "m")
    assert {(row.step, row.value) for row in history} >= {(0, 0.5), (1, 0.75), (2, 0.75)}
    assert [row.step for row in history].count(0) == 1
    assert entry.data.tags["ares.logged_commit"] == before.digest()
    assert "run has redone steps that were logged" in caplog.text


def test_several_steps_take_one_call_and_keep_their_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.reports.mlflow.STEPS_PER_CALL", 2)
    tracking, client = opened(tmp_path)
    chain(tracking.store, 5, lambda step: {"metrics": {"m": float(step)}, "timestamp": 1000 + step})
    log_batch = MlflowClient.log_batch
    with patch.object(MlflowClient, "log_batch", autospec=True, side_effect=log_batch) as logged:
        tracking.catch_up()
    entry = entry_of(tracking, client)
    history = client.get_metric_history(entry.info.run_id, "m")
    assert [(row.step, row.value, row.timestamp) for row in history] == [(n, float(n), 1000 + n) for n in range(5)]
    assert entry.data.tags["ares.logged_commit"] == tracking.store.digest(4)
    sizes = [len(call.kwargs["metrics"]) for call in logged.call_args_list if "metrics" in call.kwargs]
    assert sizes == [4, 4, 2]  # two metrics a step


def test_a_lost_table_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It ended the run, and every fork of it, since a fork logs its whole past."""
    runs = tmp_path / "run s? 100% a%41b #"  # whatever their folder is called, the database lies beside the runs
    tracking, client = opened(runs, "tracking.samples=8")
    store, table = tracking.store, pd.DataFrame({"id": ["a", "a"], "accuracy": [1.0, 0.0]})
    for step, lost in enumerate(("evaluation", "samples")):
        files = {name: f"{store.step_path(step)}/{name}.parquet" for name in ("evaluation", "samples")}
        artifacts = {name: store.write_rows(file, table) for name, file in files.items()}
        store.write_commit(commit(step, store.last_commit() if step else None, artifacts=artifacts))
        (store.directory / files[lost]).unlink()
    tracking.catch_up()
    run_id = entry_of(tracking, client).info.run_id
    for step, lost, logged in ((0, "evaluation", "samples"), (1, "samples", "evaluation")):
        assert f"step {step}: {lost} samples are not in MLflow: " in caplog.text
        assert [Path(file.path).stem for file in client.list_artifacts(run_id, logged)] == [f"{step:06d}"]
    assert steps_of(tracking, client) == [0, 1]
    assert {path.parent for path in tmp_path.rglob("mlflow.db")} == {runs}


def test_a_name_that_mlflow_refuses_is_changed_or_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of the whole run was logged: a refusal was taken for an MLflow that is away."""
    refused = {"rewards/f/mean@1": 0.5, "rewards/f/": 0.1, "rewards/f/50% (é)": 0.2, "": 0.3, "rewards/f/50": 0.7}
    refused |= {"x@y": 0.1, "x_at_y": 0.2}  # the one must not be mixed with the other
    refused |= {"a/../b@c": 0.3}  # its plain name is refused, too
    tags = 'tracking.tags={"a@b": "x", team: y}'
    tracking, client = opened(tmp_path, tags)
    tracking.store.write_commit(commit(0, None, metrics={"m": 1.0} | refused))
    tracking.catch_up()
    logged = entry_of(tracking, client).data
    assert logged.metrics["m"] == 1.0
    assert logged.metrics["rewards/f/mean_at_1"] == 0.5
    assert logged.metrics["rewards/f/50"] == 0.7
    assert logged.metrics["x_at_y"] == 0.2
    assert logged.tags["team"] == "y"
    assert logged.tags["a_at_b"] == "x"
    assert caplog.text.count("MLflow refuses 'rewards/f/mean@1': it is called 'rewards/f/mean_at_1' there") == 1
    assert caplog.text.count("MLflow refuses ''") == 1
    before = caplog.text
    tracking.store.write_commit(commit(1, tracking.store.last_commit(), metrics=refused))
    tracking.catch_up()
    assert caplog.text == before
    assert "away" not in caplog.text


def test_an_mlflow_that_is_away_is_told_once_and_the_end_says_how_the_record_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning of 400 characters after each step, and none at the end."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracking, _ = opened(tmp_path, "tracking.uri=http://me:secret@127.0.0.1:9", steps=2)
    tracking.catch_up()
    tracking.catch_up()
    assert "secret" not in caplog.text
    assert [len(record.getMessage()) < 200 for record in caplog.records] == [True]
    caplog.clear()
    tracking.finish()
    assert [record.getMessage() for record in caplog.records] == [
        "MLflow lacks a part of this run; when it is back: ares resume run"
    ]


def test_after_a_move_of_the_runs_artifacts_lie_where_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later ones went to a new folder in the old place."""

    def log_text(self: MlflowClient, run_id: str, text: str, file: str) -> None:
        folder = tmp_path / "before" / "mlartifacts" / run_id / "artifacts"  # MLflow's own keeps the folder in mind
        folder.mkdir(parents=True)
        (folder / file).write_text(text)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_text", log_text)
        opened(tmp_path / "before", steps=2)[0].catch_up()
    (tmp_path / "before").rename(tmp_path / "now")
    moved = RunStore(tmp_path / "now" / "run")
    table = moved.write_rows("steps/000002/evaluation.parquet", pd.DataFrame({"id": ["a"], "accuracy": [1.0]}))
    moved.write_commit(commit(2, moved.last_commit(), artifacts={"evaluation": table, "samples": table}))
    given = config("tracking.experiment=tracked", "tracking.samples=1")
    tracking = Tracking(given.tracking, given, moved)
    tracking.finish()
    client = MlflowClient(tracking_uri=tracking_uri(None, tmp_path / "now"))
    entry = entry_of(tracking, client)
    assert {file.path for file in client.list_artifacts(entry.info.run_id)} == {"profile.yaml", "evaluation", "samples"}
    assert (tmp_path / "now" / "mlartifacts" / entry.info.run_id / "artifacts" / "samples" / "000002.json").exists()
    assert not (tmp_path / "before").exists()
    assert client.get_experiment_by_name("tracked").artifact_location == (tmp_path / "now" / "mlartifacts").as_uri()


def test_a_user_without_a_name_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container started with --user 12345 nothing was logged, and the run ended with a KeyError."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    tags = origin("ares train", config(), "1", RunStore(tmp_path / "run"))
    assert tags["mlflow.user"] == str(os.getuid())


def test_an_entry_says_who_ran_what_on_which_data(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """MLflow refuses a data set whose name is longer than 500 characters: nothing of the run was ever logged."""
    files = [f"/data/shards/part-{number:05d}-of-00064.parquet" for number in range(64)]
    described = {"code_version": f"{'c' * 40}+changes", "digests": {"train": "a" * 64, "validation": None}}
    tracking, client = opened(tmp_path, f"data.train={json.dumps(files)}", steps=1, **described)
    tracking.catch_up()
    assert not caplog.text
    entry = entry_of(tracking, client)
    told = {name: entry.data.tags[f"mlflow.{name}"] for name in ("user", "source.name", "source.git.commit")}
    assert told == {"user": getuser(), "source.name": "ares train", "source.git.commit": "c" * 40}
    (used,) = entry.inputs.dataset_inputs
    assert (used.dataset.name[:400], used.dataset.digest) == (str(files)[:400], "a" * 36)
    assert [(tag.key, tag.value) for tag in used.tags] == [("mlflow.data.context", "training")]
    experiment = client.get_experiment_by_name("tracked")
    view = json.loads(experiment.tags["mlflow.sharedViewState.ares"])
    assert {"metrics.`val/accuracy`", "metrics.`bucket/hard/alpha`"} <= set(view["selectedColumns"])


def test_a_server_is_its_own_page_and_a_worker_is_told_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARES_MLFLOW_PAGE", raising=False)
    assert mlflow_page("http://me:secret@mlflow.example/", tmp_path) == "http://mlflow.example"
    monkeypatch.setenv("ARES_MLFLOW_PAGE", "http://127.0.0.1:5100")
    assert mlflow_page("http://mlflow.example/", tmp_path) == "http://mlflow.example"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")
    assert mlflow_page("http://mlflow:5000", tmp_path) == "http://127.0.0.1:5100"
    assert mlflow_page("sqlite:////somewhere/mlflow.db", tmp_path) == "http://127.0.0.1:5100"


def test_a_database_is_shown_by_a_running_ares_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARES_MLFLOW_PAGE", raising=False)
    assert mlflow_page("sqlite:////somewhere/mlflow.db", tmp_path) is None
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / ".services").mkdir()
    for pid, page in ((os.getpid(), "http://127.0.0.1:5100"), (gone.pid, None)):
        services = json.dumps({"pid": pid, "mlflow": "http://127.0.0.1:5100"})
        (tmp_path / ".services" / "services.json").write_text(services)
        assert mlflow_page("sqlite:////somewhere/mlflow.db", tmp_path) == page
