"""What reaches MLflow when it is only half there, or has lost a run."""

import json
from getpass import getuser
from pathlib import Path

import pytest
from mlflow import MlflowClient

from ares.reports.mlflow import Tracking
from ares.store.store import RunStore
from tests.ares.builders import config
from tests.ares.store_builders import chain, commit


def test_an_mlflow_that_takes_entries_but_no_files_gets_one_entry_of_a_run(tmp_path: Path) -> None:
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    settings = config("tracking.experiment=half", f"tracking.uri={client.tracking_uri}")
    # Only through its server can files be put there.
    experiment = client.create_experiment("half", artifact_location="mlflow-artifacts:/half")
    store = RunStore(tmp_path / "run")
    store.write_run({"code_version": "1", "mlflow_run_id": None})
    for _ in range(3):
        Tracking(settings.tracking, settings, store).catch_up()
    (entry,) = client.search_runs([experiment])
    assert store.read_run()["mlflow_run_id"] == entry.info.run_id
    assert "ares.logged_step" not in entry.data.tags
    assert entry.data.params["rollout.n"] == "4"


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("lost", ["deleted", "unknown"])
def test_an_entry_that_is_gone_is_made_anew_from_the_commits(
    lost: str, restarted: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    settings = config("tracking.experiment=lost", f"tracking.uri={client.tracking_uri}", "tracking.samples=0")
    store = RunStore(tmp_path / "run")
    store.write_run({"code_version": "1", "mlflow_run_id": None})
    commits = chain(store, 3)
    tracking = Tracking(settings.tracking, settings, store)
    tracking.catch_up()
    first = str(store.read_run()["mlflow_run_id"])
    if lost == "deleted":
        client.delete_run(first)
    else:
        store.write_run(store.read_run() | {"mlflow_run_id": "0" * 32})
    store.write_commit(commit(3, commits[-1]))
    if restarted:
        tracking = Tracking(settings.tracking, settings, store)
    tracking.catch_up()
    tracking.catch_up()  # whoever noticed in the middle catches up the next time
    second = str(store.read_run()["mlflow_run_id"])
    assert second != first
    assert [row.step for row in client.get_metric_history(second, "m")] == [0, 1, 2, 3]
    assert "it is made anew" in caplog.text


def test_an_entry_says_who_ran_what_on_which_data(tmp_path: Path) -> None:
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    settings = config("tracking.experiment=told", f"tracking.uri={client.tracking_uri}", "tracking.samples=0")
    store = RunStore(tmp_path / "run")
    digests = {"train": "a" * 64, "validation": None}
    store.write_run({"code_version": f"{'c' * 40}+changes", "mlflow_run_id": None, "digests": digests})
    chain(store, 1)
    Tracking(settings.tracking, settings, store).catch_up()
    entry = client.get_run(store.read_run()["mlflow_run_id"])
    told = {name: entry.data.tags[f"mlflow.{name}"] for name in ("user", "source.name", "source.git.commit")}
    assert told == {"user": getuser(), "source.name": "ares train", "source.git.commit": "c" * 40}
    (used,) = entry.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == (str(settings.data.train), "a" * 36)
    assert [(tag.key, tag.value) for tag in used.tags] == [("mlflow.data.context", "training")]
    experiment = client.get_experiment_by_name("told")
    assert experiment is not None
    view = json.loads(experiment.tags["mlflow.sharedViewState.ares"])
    assert {"metrics.`val/accuracy`", "metrics.`bucket/hard/alpha`"} <= set(view["selectedColumns"])
