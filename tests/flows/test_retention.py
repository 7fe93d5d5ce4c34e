"""What `ares gc` and the flow `ares-gc` delete, and what they never touch: real stores, MLflow's own database."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from ares.config import ConfigError
from ares.reports.mlflow import Tracking
from ares.runs.retention import DAY
from ares.store.store import RunStore
from flows.deployed import ares_gc
from tests import mlflow_database
from tests.ares.builders import config
from tests.ares.store_builders import commit
from tests.short_runs import told

AGE = 100
EVERYTHING: dict[str, Any] = {"older_than": 0.0, "entries": 0.0, "working_files": True}


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The MLflow entries, by run, of runs that ended long ago; one of them is gone, and each has a leftover."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    mlflow_database.beside(tmp_path)
    settings = config("tracking.experiment=runs", "tracking.samples=0")
    found = {}
    for name in ("live", "stopped", "gone"):
        store = RunStore(tmp_path / name)
        store.write_run({"code_version": "1", "config": {}, "mlflow_run_id": None})
        timestamp = int(1000 * (time.time() - AGE * DAY))
        store.write_commit(commit(0, None, state={"evaluations": []}, timestamp=timestamp))
        Tracking(settings.tracking, settings, store).catch_up()
        found[name] = str(store.read_run()["mlflow_run_id"])
        (store.directory / ".left.1.partial").mkdir()
    shutil.rmtree(tmp_path / "gone")
    return found


def files(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def stages(runs: Path, entries: dict[str, str]) -> dict[str, str]:
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    return {name: client.get_run(entry).info.lifecycle_stage for name, entry in entries.items()}


@pytest.mark.usefixtures("prefect")
def test_without_a_policy_nothing_of_any_run_goes(tmp_path: Path, entries: dict[str, str]) -> None:
    before = {name: files(tmp_path / name) for name in ("live", "stopped", "mlartifacts")}
    assert ares_gc() == 0
    assert {name: files(tmp_path / name) for name in before} == before
    assert set(stages(tmp_path, entries).values()) == {"active"}


@pytest.mark.usefixtures("prefect")
def test_the_harshest_policy_touches_nothing_of_a_run_that_is_being_trained(
    tmp_path: Path, entries: dict[str, str]
) -> None:
    live = RunStore(tmp_path / "live")
    with live.lock():
        before = files(live.directory)
        assert ares_gc(**EVERYTHING) > 0
        assert files(live.directory) == before
        assert stages(tmp_path, entries) == {"live": "active", "stopped": "deleted", "gone": "deleted"}
    assert not (tmp_path / "stopped").exists()


def test_a_run_in_training_holds_up_the_others_only_where_it_is_named(tmp_path: Path, entries: dict[str, str]) -> None:
    """`ares gc` ended with an error at the first one, and left the rest."""
    with RunStore(tmp_path / "live").lock():
        done = told(tmp_path, "gc")
        assert done.returncode == 0, done.stderr
        assert "left alone: Run 'live' is being trained by another process" in done.stdout
        assert (tmp_path / "live" / ".left.1.partial").exists()
        assert not (tmp_path / "stopped" / ".left.1.partial").exists()
        named = told(tmp_path, "gc", "live")
    assert named.returncode == 2
    assert "is being trained by another process" in named.stderr


def test_a_damaged_run_holds_up_the_others_only_where_it_is_named(tmp_path: Path, entries: dict[str, str]) -> None:
    """One damaged run.json ended every `ares gc` of the directory, the daily one too."""
    (tmp_path / "live" / "run.json").write_text("{")
    done = told(tmp_path, "gc", "--older-than", "99")
    assert done.returncode == 0, done.stderr
    assert f"left alone: {tmp_path / 'live' / 'run.json'}: not readable as JSON" in done.stdout
    assert (tmp_path / "live" / ".left.1.partial").exists()
    assert not (tmp_path / "stopped").exists()
    assert told(tmp_path, "gc", "live").returncode == 2


def test_a_dry_run_lists_entries_and_leaves_them(
    tmp_path: Path, entries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ares.reports.entries.purge", lambda *_: 0)  # what is in the trash: test_entries.py
    listed = told(tmp_path, "gc", "--dry-run", "--entries", "0")
    assert f"gone: MLflow's entry {entries['gone']}, to its trash" in listed.stdout
    assert set(stages(tmp_path, entries).values()) == {"active"}
    told(tmp_path, "gc", "--entries", "0")
    assert stages(tmp_path, entries) == {"live": "active", "stopped": "active", "gone": "deleted"}


def test_a_dry_run_has_a_line_for_each_kind_of_file(tmp_path: Path, entries: dict[str, str]) -> None:
    """It had a line for each file: 1,800 for two runs."""
    for number in range(30):
        (tmp_path / "live" / f".left.{number}.partial").mkdir(exist_ok=True)
    listed = told(tmp_path, "gc", "--dry-run", "live").stdout.splitlines()
    assert [line.split() for line in listed[:1]] == [["0", "30", "×", ".left.#.partial"]]
    assert listed[1:] == ["live: 30 files and folders, 0 bytes", "would free 0 bytes"]


def test_an_mlflow_elsewhere_is_left_to_its_own_gc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://ares:secret@mlflow.example/mlflow")
    done = told(tmp_path, "gc")
    assert done.returncode == 0, done.stderr
    assert "mlflow gc --older-than 30d" in done.stdout
    assert "secret" not in done.stdout


@pytest.mark.parametrize(
    "option", [{"older_than": -1.0}, {"max_size": float("inf")}, {"keep_best": -1}, {"entries": -1.0}]
)
def test_a_deployments_numbers_are_checked_as_the_commands(option: dict[str, float]) -> None:
    """A negative one would have deleted every run."""
    with pytest.raises(ConfigError, match=f"^--{next(iter(option)).replace('_', '-')} must be 0 or more "):
        ares_gc.fn(**option)
