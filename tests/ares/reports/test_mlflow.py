"""What reaches MLflow when it is only half there."""

from pathlib import Path

from mlflow import MlflowClient

from ares.reports.mlflow import Tracking
from ares.store.store import RunStore
from tests.ares.builders import config


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
