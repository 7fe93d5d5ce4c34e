"""Which MLflow entries are deleted with runs that are gone, and what `mlflow gc` leaves of deleted ones."""

import shutil
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ares.reports.entries import DAY, EntriesError, abandoned, purge, trash
from ares.reports.mlflow import Tracking
from ares.store.store import RunStore
from tests import mlflow_database
from tests.ares.builders import config
from tests.ares.store_builders import chain


class Database:
    """An MLflow beside runs."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.file = runs / "mlflow.db"
        self.uri = mlflow_database.beside(runs)
        self.client = MlflowClient(tracking_uri=self.uri)

    def run(self, name: str, folder: Path | None = None) -> str:
        """A run of three steps with its entry, which was never marked as ended; returns the entry's id."""
        settings = config("tracking.experiment=runs", f"tracking.uri={self.uri}", "tracking.samples=0")
        store = RunStore((folder or self.runs) / name)
        store.write_run({"code_version": "1", "mlflow_run_id": None})
        chain(store, 3)
        Tracking(settings.tracking, settings, store).catch_up()
        return str(store.read_run()["mlflow_run_id"])

    def evaluation(self, entry: str, directory: Path) -> str:
        """An entry below that of a run."""
        tags = {MLFLOW_PARENT_RUN_ID: entry, "ares.directory": str(directory)}
        return str(self.client.create_run(self.client.get_run(entry).info.experiment_id, tags=tags).info.run_id)

    def abandoned(self, older_than: float = 30, days_later: float = 40) -> set[str]:
        found = abandoned(self.uri, self.runs, older_than, time.time() + days_later * DAY)
        return {entry.info.run_id for entry in found}

    def deleted(self, entry: str, days_ago: float) -> None:
        self.client.delete_run(entry)
        with sqlite3.connect(self.file) as database:
            before = int(1000 * (time.time() - days_ago * DAY))
            database.execute("UPDATE runs SET deleted_time = ? WHERE run_uuid = ?", (before, entry))

    def stage(self, entry: str) -> str:
        return str(self.client.get_run(entry).info.lifecycle_stage)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    (tmp_path / "runs").mkdir()
    return Database(tmp_path / "runs")


def test_entries_go_with_runs_that_are_gone_and_with_no_other(database: Database, tmp_path: Path) -> None:
    entries = {name: database.run(name) for name in ("here", "gone", "moved", "above")}
    elsewhere = database.run("elsewhere", tmp_path / "others")
    of_gone = database.evaluation(entries["gone"], database.runs / "gone" / "evals" / "one")
    database.evaluation(entries["moved"], database.runs / "moved" / "evals" / "one")
    database.evaluation(entries["above"], database.runs / "here")
    shutil.rmtree(tmp_path / "others")
    for name in ("gone", "above"):
        shutil.rmtree(database.runs / name)
    (database.runs / "moved").rename(database.runs / "now-here")
    assert database.abandoned() == {entries["gone"], of_gone}
    assert database.abandoned(older_than=41) == set()
    trash(database.uri, abandoned(database.uri, database.runs, 0))
    assert database.abandoned() == set()
    assert {name: database.stage(entry) for name, entry in entries.items()} == {
        "here": "active", "gone": "deleted", "moved": "active", "above": "active"
    }  # fmt: skip
    assert database.stage(elsewhere) == "active"


def test_an_entry_is_as_old_as_what_was_written_last(database: Database) -> None:
    """A run that was killed after weeks was never marked as ended."""
    entry = database.run("gone")
    shutil.rmtree(database.runs / "gone")
    database.client.log_metric(entry, "m", 1.0, timestamp=int(1000 * (time.time() + 20 * DAY)), step=4)
    assert database.abandoned(older_than=21) == set()
    assert database.abandoned(older_than=19) == {entry}


def test_mlflow_gc_deletes_what_lies_in_the_trash_for_thirty_days_with_its_files(database: Database) -> None:
    entries = {name: database.run(name) for name in ("kept", "yesterday", "long-ago")}
    database.deleted(entries["yesterday"], 1)
    database.deleted(entries["long-ago"], 31)
    files = {name: list(database.runs.glob(f"mlartifacts/{entry}/**/profile.yaml")) for name, entry in entries.items()}
    assert all(files.values())
    assert purge(database.uri, None) == 1
    left = {each.info.run_id for each in database.client.search_runs(["1"], run_view_type=3)}
    assert left == {entries["kept"], entries["yesterday"]}
    assert [name for name, (file,) in files.items() if file.exists()] == ["kept", "yesterday"]
    with sqlite3.connect(database.file) as opened:
        rows = dict(opened.execute("SELECT run_uuid, count(*) FROM metrics GROUP BY run_uuid"))
    assert rows.keys() == left


def test_an_mlflow_gc_that_fails_says_why(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.deleted(database.run("gone"), 1)
    monkeypatch.setattr("ares.reports.entries.TRASH_DAYS", "some-")
    with pytest.raises(EntriesError, match=r"mlflow gc failed .*Could not parse any time information from 'some-d'"):
        purge(database.uri, None)


def test_where_nothing_lies_in_the_trash_mlflow_gc_is_not_started(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was, and took four CPU seconds to find that out."""
    started: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append(command[3])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("ares.reports.entries.subprocess.run", run)
    database.run("kept")
    assert (purge(database.uri, None), started) == (0, [])
    database.client.delete_experiment(database.client.create_experiment("emptied by hand"))
    assert (purge(database.uri, None), started) == (0, ["gc"])


def test_a_file_that_is_not_a_database_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("no database")
    with pytest.raises(EntriesError, match=r"^MLflow's database cannot be read: .*not a database.*$"):
        purge(f"sqlite:///{tmp_path / 'mlflow.db'}", None)
