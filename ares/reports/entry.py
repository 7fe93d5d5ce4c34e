"""An entry of MLflow's (MLflow calls it a run): found again or made, and what is logged to it.

Covered: the experiment and its saved view, tags that tell where an entry comes from, settings as parameters, data sets,
names that MLflow refuses. Not covered: which metrics and files (ares/reports/mlflow.py, evaluation_entry.py).
"""

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import (
    MLFLOW_DATASET_CONTEXT,
    MLFLOW_GIT_COMMIT,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)
from sqlalchemy.exc import SQLAlchemyError

from ares.config import Config, fingerprint, result_settings
from ares.reports.mlflow_internals import SAVED_VIEW, TRAINING, move_artifacts
from ares.store import RunStore, database_of

logger = logging.getLogger(__name__)
AWAY = (MlflowException, OSError, SQLAlchemyError)
"""What MLflow raises when it cannot be reached; SQLAlchemyError if its database is locked before it has tables."""
LONGEST_NAME = 500
"""Characters of a data set's name: MLflow refuses a longer one, which a list of files easily makes."""
LONGEST_REASON = 100
"""Characters that are shown of an error."""
Named: TypeAlias = Metric | Param | RunTag


class Entry:
    """An open entry. renamed: by name, what it is called there, or None where it is left out; updated."""

    def __init__(self, client: MlflowClient, run_id: str, renamed: dict[str, str | None] | None = None) -> None:
        self.client = client
        self.run_id = run_id
        self._renamed = {} if renamed is None else renamed

    @property
    def is_gone(self) -> bool:
        """Whether the entry was deleted, or was in another machine's database."""
        try:
            return bool(self.client.get_run(self.run_id).info.lifecycle_stage == LifecycleStage.DELETED)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return True

    def log(self, rows: Sequence[Named]) -> None:
        """Log metrics, parameters or tags, all of one kind.

        One that MLflow refuses is logged under a name that it takes, or left out; a warning says so once.
        """
        known = [(row, self._name_there(row.key)) for row in rows]
        if not (rows := [_with_name(row, name) for row, name in known if name is not None]):
            return
        kind = {Metric: "metrics", Param: "params", RunTag: "tags"}[type(rows[0])]
        try:
            self.client.log_batch(self.run_id, **{kind: rows})
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE" or self.is_gone:
                raise
            names = list(dict.fromkeys(row.key for row in rows))
            if len(names) == 1:
                self._rename(names[0], error)
                self.log(rows)
            for part in (names[: len(names) // 2], names[len(names) // 2 :]) if len(names) > 1 else ():
                self.log([row for row in rows if row.key in part])

    def _name_there(self, name: str) -> str | None:
        plain = self._renamed.setdefault(name, name)
        return None if plain is None else self._renamed.get(plain, plain)  # a plain name may have been refused, too

    def _rename(self, name: str, error: MlflowException) -> None:
        plain = re.sub(r"[^A-Za-z0-9_/. -]+", "_", name.replace("@", "_at_")).strip("/ ")
        is_new = plain not in (name, "", ".", "..", *self._renamed.values())
        self._renamed[name] = plain if is_new else None
        outcome = f"it is called {plain!r} there" if is_new else f"it is left out there ({reason(error)})"
        logger.warning("MLflow refuses %r: %s", name, outcome)

    def log_settings(self, config: Config, more: Mapping[str, Any]) -> None:
        """Log settings and `more` as parameters, and the profile; repeating it does no harm."""
        self.log([Param(key, str(value)[:500]) for key, value in (result_settings(config) | dict(more)).items()])
        profile = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        self.client.log_text(self.run_id, profile, "profile.yaml")

    def log_data(self, source: str, digest: str, context: str) -> None:
        """Log the name and digest of a data set, and what it was used for."""
        name = source if len(source) <= LONGEST_NAME else f"{source[: LONGEST_NAME - 1]}…"
        named = Dataset(name=name, digest=digest[:36], source_type="ares", source=json.dumps(name))
        used = DatasetInput(named, [InputTag(MLFLOW_DATASET_CONTEXT, context)])
        self.client.log_inputs(self.run_id, datasets=[used])


def find_or_create(uri: str, config: Config, store: RunStore, known: str | None, tags: Mapping[str, str],
                   renamed: dict[str, str | None] | None = None) -> tuple[Entry, str]:  # fmt: skip
    """The entry that is known, now RUNNING, or a new one named after the run; and the id of its experiment."""
    client = MlflowClient(tracking_uri=uri)
    experiment = open_experiment(client, config.tracking.experiment, store.directory.parent)
    if known is not None:
        entry = Entry(client, known, renamed)
        if not entry.is_gone:
            client.set_terminated(known, "RUNNING")
            return entry, experiment
        logger.warning("MLflow at %s has no entry %s any more: it is made anew", uri, known)
    made = client.create_run(experiment, run_name=store.name, tags=dict(tags))
    return Entry(client, made.info.run_id, renamed), experiment


def open_experiment(client: MlflowClient, name: str, runs: Path) -> str:
    """Id of the experiment called `name`, created if missing. A local one keeps its artifacts beside the runs."""
    database = database_of(str(client.tracking_uri))
    artifacts = None if database is None else (runs.absolute() / "mlartifacts").as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name, artifact_location=artifacts, tags=TRAINING | SAVED_VIEW))
    for key in SAVED_VIEW.keys() - experiment.tags.keys():  # one of before there were views
        client.set_experiment_tag(experiment.experiment_id, key, SAVED_VIEW[key])
    if database is not None and artifacts is not None and experiment.artifact_location != artifacts:
        entries = client.search_runs([experiment.experiment_id], max_results=100)
        if any((runs / "mlartifacts" / entry.info.run_id).exists() for entry in entries):  # the runs' folder was moved
            move_artifacts(database, experiment.artifact_location, artifacts)
    return str(experiment.experiment_id)


def origin(command: str, config: Config, code_version: str, store: RunStore) -> dict[str, str]:
    """Tags of an entry: user, command, versions of code and settings, directory."""
    commit, _, _ = code_version.partition("+")  # a checkout may have had changes besides
    return {
        MLFLOW_USER: _user(),
        MLFLOW_SOURCE_TYPE: "LOCAL",
        MLFLOW_SOURCE_NAME: command,
        **({MLFLOW_GIT_COMMIT: commit} if len(commit) == 40 else {}),
        "ares.fingerprint": fingerprint(config),
        "ares.code_version": code_version,
        "ares.directory": str(store.directory.absolute()),
    }


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a container may run as a number that no name belongs to
        return str(os.getuid())


def reason(error: BaseException) -> str:
    """What an error says, in a few words: MLflow's fill a screen."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}…"


def _with_name(row: Named, name: str) -> Named:
    if name == row.key:
        return row
    if isinstance(row, Metric):
        return Metric(name, row.value, row.timestamp, row.step)
    return type(row)(name, row.value)
