"""The MLflow run that is the parent of an ablation's children; its id is kept in the ablation's folder.

Covered: opening it, its state, its report. Children create their own entries (ares/reports/mlflow.py) and name this one
as parent. An ablation is compared from MLflow, so an unreachable MLflow is an error here.
"""

import json
from pathlib import Path

import yaml
from mlflow import MlflowClient

from ares.ablations.definition import Ablation
from ares.config import Config, ConfigError, Override
from ares.errors import UserError
from ares.reports import AWAY, Tracking, mlflow_page, open_experiment
from ares.store import RunStore, tracking_uri

DEFINITION = "ares.ablation.definition"
"""Tag of the parent run: the ablation's YAML. It marks a parent."""
FILE = "ablation.json"
"""File in the ablation's folder: its MLflow run, and what was fixed before the first child started."""
LONGEST_TAG = 8000
"""Characters MLflow keeps of a tag."""


class TrackingError(UserError, RuntimeError):
    """MLflow cannot be reached, or does not know the ablation."""


def check_fixed(ablation: Ablation, folder: Path) -> None:
    """Raise ConfigError if what a started ablation is judged by has changed."""
    try:
        stored = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        return
    changed = [f"{name}: {stored[name]!r} → {value!r}" for name, value in ablation.fixed.items()
               if name in stored and stored[name] != value]  # fmt: skip
    if changed:
        raise ConfigError(
            f"Ablation {ablation.name!r} was started, and by what it is judged was decided then:\n  "
            + "\n  ".join(changed)
            + "\nTake what was decided, or give the ablation another name with --name."
        )


class ParentRun:
    """An ablation's own MLflow run."""

    def __init__(self, ablation: Ablation, config: Config, folder: Path, extra: list[Override]) -> None:
        """Find or create it; `folder` is the ablation's, `config` that of any child. Raises TrackingError."""
        self.folder = folder
        self.uri = tracking_uri(config.tracking.uri, folder.parent)
        definition = yaml.safe_dump(ablation.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        if len(definition) > LONGEST_TAG:
            raise ConfigError(f"Ablation {ablation.name}: its YAML is longer than an MLflow tag ({LONGEST_TAG})")
        tags = {DEFINITION: definition, "ares.ablation": ablation.name, "ares.ablation.command_line": " ".join(extra),
                "ares.directory": str(folder.absolute())}  # fmt: skip
        try:
            self.client = MlflowClient(tracking_uri=self.uri)
            self.experiment_id = open_experiment(self.client, ablation.name, folder.parent)
            self.id = self._found() or self._created(ablation.name)
            described = {"name": ablation.name, "mlflow_run_id": self.id, **ablation.fixed}
            RunStore(folder).write_json(FILE, described)  # before the first child starts
            for key, value in tags.items():
                self.client.set_tag(self.id, key, value)
            self.client.set_terminated(self.id, "RUNNING")
        except AWAY as error:
            raise TrackingError(f"MLflow at {self.uri}: {str(error).splitlines()[0]}") from error

    @property
    def page(self) -> str | None:
        """Address of the ablation's run in MLflow's UI, if there is one."""
        page = mlflow_page(self.uri, self.folder.parent)
        return None if page is None else f"{page}/#/experiments/{self.experiment_id}/runs/{self.id}"

    def _found(self) -> str | None:
        try:
            run_id = str(json.loads((self.folder / FILE).read_text())["mlflow_run_id"])
        except FileNotFoundError:
            return None
        self.client.get_run(run_id)
        return run_id

    def _created(self, name: str) -> str:
        return str(self.client.create_run(self.experiment_id, run_name=name).info.run_id)

    def close(self, status: str, files: list[Path]) -> None:
        """Set the state (FINISHED, FAILED or KILLED) and log the report's files. Raises TrackingError."""
        try:
            for file in files:
                self.client.log_artifact(self.id, str(file))
            self.client.set_terminated(self.id, status)
        except AWAY as error:
            raise TrackingError(f"MLflow at {self.uri}: {str(error).splitlines()[0]}") from error


def complete_entry(config: Config, store: RunStore, finished: bool) -> None:
    """Log what MLflow is missing of a child: MLflow was away or locked, or the child was killed before it could log."""
    description = store.read_run()
    tracking = Tracking(config.tracking, config, store)
    if description["mlflow_run_id"] is not None:
        entry = MlflowClient(tracking_uri=tracking.uri).get_run(description["mlflow_run_id"])
        logged = int(entry.data.tags.get("ares.logged_step", -1))
        if entry.info.status == "FINISHED" and logged == store.committed_steps()[-1]:
            return
    if finished:
        tracking.finish()
    else:
        tracking.catch_up()
