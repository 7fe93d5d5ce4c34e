"""The MLflow run that is the parent of an ablation's children; its id is kept in the ablation's folder.

Covered: opening it, its state, its report; what was fixed before the first child started. Children create their own
entries (ares/reports/mlflow.py) and name this one as parent. An ablation is compared from MLflow, so an unreachable
MLflow is an error here.
"""

import json
from pathlib import Path
from typing import Any

import yaml
from mlflow import MlflowClient

from ares.ablations.definition import Ablation
from ares.ablations.rows import DEFINITION, naming_mlflow
from ares.config import Config, ConfigError, Override
from ares.reports import Tracking, mlflow_page, open_experiment
from ares.store import RunStore, tracking_uri

FILE = "ablation.json"
"""File in the ablation's folder: its MLflow run, and what was fixed before the first child started."""
LONGEST_TAG = 8000
"""Characters MLflow keeps of a tag."""


def check_fixed(ablation: Ablation, folder: Path) -> None:
    """Raise ConfigError if what a started ablation is judged by has changed."""
    stored = _read_file(folder)
    if stored.get("baseline", "") is None:  # of before 2026-11-25, when one could be judged without
        del stored["baseline"]
    changed = [f"{name}: {stored[name]!r} → {value!r}" for name, value in ablation.fixed.items()
               if name in stored and stored[name] != value]  # fmt: skip
    if changed:
        raise ConfigError(
            f"Ablation {ablation.name!r} was started, and by what it is judged was decided then:\n  "
            + "\n  ".join(changed)
            + "\nTake what was decided, or give the ablation another name with --name."
        )


def _read_file(folder: Path) -> dict[str, Any]:
    """What the ablation's file says; nothing before it has started."""
    file = folder / FILE
    return dict(json.loads(file.read_text())) if file.exists() else {}


class ParentRun:
    """An ablation's own MLflow run."""

    def __init__(self, ablation: Ablation, config: Config, folder: Path, extra: list[Override]) -> None:
        """Find or create it; `folder` is the ablation's, `config` that of any child. Raises TrackingError."""
        self.uri = tracking_uri(config.tracking.uri, folder.parent)
        definition = yaml.safe_dump(ablation.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        if len(definition) > LONGEST_TAG:
            raise ConfigError(f"Ablation {ablation.name}: its YAML is longer than an MLflow tag ({LONGEST_TAG})")
        tags = {DEFINITION: definition, "ares.ablation": ablation.name, "ares.ablation.command_line": " ".join(extra),
                "ares.directory": str(folder.absolute())}  # fmt: skip
        with naming_mlflow(self.uri):
            self._client = client = MlflowClient(tracking_uri=self.uri)
            experiment = open_experiment(client, ablation.name, folder.parent)
            stored = _read_file(folder).get("mlflow_run_id")
            run = client.get_run(stored) if stored else client.create_run(experiment, run_name=ablation.name)
            self.id = str(run.info.run_id)
            fixed = {"name": ablation.name, "mlflow_run_id": self.id, **ablation.fixed}
            RunStore(folder).write_json(FILE, fixed)  # before the first child starts
            for key, value in tags.items():
                client.set_tag(self.id, key, value)
            client.set_terminated(self.id, "RUNNING")
        page = mlflow_page(self.uri, folder.parent)
        self.page = None if page is None else f"{page}/#/experiments/{experiment}/runs/{self.id}"
        """Address of the ablation's run in MLflow's UI, if there is one."""

    def close(self, status: str, files: list[Path]) -> None:
        """Set the state (FINISHED, FAILED or KILLED) and log the report's files. Raises TrackingError."""
        with naming_mlflow(self.uri):
            for file in files:
                self._client.log_artifact(self.id, str(file))
            self._client.set_terminated(self.id, status)


def complete_entry(config: Config, store: RunStore, finished: bool) -> None:
    """Log what MLflow is missing of a child: MLflow was away or locked, or the child was killed before it could log."""
    tracking, run_id = Tracking(config.tracking, config, store), store.read_run()["mlflow_run_id"]
    if run_id is not None:
        entry = MlflowClient(tracking_uri=tracking.uri).get_run(run_id)
        logged = int(entry.data.tags.get("ares.logged_step", -1))
        if entry.info.status == "FINISHED" and logged == store.committed_steps()[-1]:
            return
    if finished:
        tracking.finish()
    else:
        tracking.catch_up()
