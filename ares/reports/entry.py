"""An entry of MLflow's (MLflow calls it a run): found again or made, and what is logged to it.

Covered: the experiment and its saved view, tags that tell where an entry comes from, settings as parameters, data sets,
names that MLflow refuses. Not covered: which metrics and files (ares/reports/mlflow.py, evaluation_entry.py).
"""

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from getpass import getuser
from pathlib import Path
from typing import Any

import yaml
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param
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
from ares.printable import without_credentials
from ares.reports.mlflow_internals import SAVED_VIEW, TRAINING, move_artifacts
from ares.store import RunStore, database_of

logger = logging.getLogger(__name__)
AWAY = (MlflowException, OSError, SQLAlchemyError)
"""What MLflow raises when it cannot be reached; SQLAlchemyError if its database is locked before it has tables."""
LONGEST_NAME = 500
"""Characters of a data set's name: MLflow refuses a longer one, which a list of files easily makes."""
LONGEST_KEY = 250
"""Characters of the name of a metric or tag."""
NAMING = ("*.json", "rescores/*/*.json")
"""Files of a directory that name its entries. One that was moved away may have another in its place, with others."""
LONGEST_REASON = 100
"""Characters that are shown of an error."""


class Entry:
    """An open entry."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self.client = client
        self.run_id = run_id
        self._told: set[str] = set()
        """Names that a warning was about."""

    @property
    def is_gone(self) -> bool:
        """Whether the entry was deleted, or was in another machine's database."""
        try:
            return bool(self.client.get_run(self.run_id).info.lifecycle_stage == LifecycleStage.DELETED)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return True

    def directory_of_another(self, store: RunStore) -> str | None:
        """The directory that the entry is of, if that still names it and is not the run's, which was copied from it."""
        place: str = self.client.get_run(self.run_id).data.tags.get("ares.directory", "")
        if store.mirror is not None or not os.path.isdir(place) or os.path.samefile(place, store.directory):
            return None
        naming = (file for pattern in NAMING for file in Path(place).glob(pattern))
        return place if any(self.run_id in file.read_text(encoding="utf-8") for file in naming) else None

    def names_there(self, names: Iterable[str]) -> dict[str, str]:
        """What metrics or tags are called there. One whose plain name is empty or another's is missing.

        A warning says once what is renamed or left out.
        """
        of_plain: dict[str, str] = {}
        for name in sorted(names, key=lambda each: plain_name(each) != each):  # a plain one keeps its name
            plain = plain_name(name)
            is_there = plain != "" and of_plain.setdefault(plain, name) == name
            if not (is_there and plain == name) and name not in self._told:
                outcome = f"it is called {plain!r} there" if is_there else "it is left out there"
                logger.warning("MLflow refuses %r: %s", name, outcome)
                self._told.add(name)
        return {name: plain for plain, name in of_plain.items()}

    def log_tags(self, tags: Mapping[str, str]) -> None:
        """Set tags of any name."""
        for name, plain in self.names_there(tags).items():
            self.client.set_tag(self.run_id, plain, tags[name])

    def log_metrics(self, rows: Sequence[tuple[int, int, Mapping[str, float]]]) -> None:
        """Log metrics of any name. rows: a step, a time (ms since the epoch), and the metrics."""
        there = self.names_there(dict.fromkeys(name for *_, metrics in rows for name in sorted(metrics)))
        found = [
            Metric(there[name], value, time, step)
            for step, time, metrics in rows
            for name, value in metrics.items()
            if name in there
        ]
        self.client.log_batch(self.run_id, metrics=found)

    def log_settings(self, config: Config, more: Mapping[str, Any]) -> None:
        """Log settings and `more` as parameters, and the profile; repeating it does no harm."""
        settings = result_settings(config) | dict(more)
        known = self.client.get_run(self.run_id).data.params  # of which MLflow refuses another value
        params = [
            Param(key, without_credentials(str(value))[:500]) for key, value in settings.items() if key not in known
        ]
        self.client.log_batch(self.run_id, params=params)
        profile = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
        self.client.log_text(self.run_id, without_credentials(profile), "profile.yaml")

    def log_data(self, source: str, digest: str, context: str) -> None:
        """Log the name and digest of a data set, and what it was used for."""
        name = source if len(source) <= LONGEST_NAME else f"{source[: LONGEST_NAME - 1]}…"
        named = Dataset(name=name, digest=digest[:36], source_type="ares", source=json.dumps(name))
        used = DatasetInput(named, [InputTag(MLFLOW_DATASET_CONTEXT, context)])
        self.client.log_inputs(self.run_id, datasets=[used])


def find_or_create(
    uri: str, config: Config, store: RunStore, known: str | None, tags: Mapping[str, str]
) -> tuple[Entry, str]:
    """The entry that is known, now RUNNING, or a new one named after the run; and the id of its experiment."""
    client = MlflowClient(tracking_uri=uri)
    experiment = open_experiment(client, config.tracking.experiment, store.directory.parent)
    if known is not None:
        entry = Entry(client, known)
        if entry.is_gone:
            logger.warning("MLflow at %s has no entry %s any more: it is made anew", without_credentials(uri), known)
        elif (other := entry.directory_of_another(store)) is not None:
            logger.warning("%s: a new entry is made in MLflow, since %s has that of before", store.directory, other)
        else:
            client.set_terminated(known, "RUNNING")
            return entry, experiment
    made = client.create_run(experiment, run_name=store.name, tags=dict(tags))
    return Entry(client, made.info.run_id), experiment


def open_experiment(client: MlflowClient, name: str, runs: Path) -> str:
    """Id of the experiment called `name`, created if missing. A local one keeps its artifacts beside the runs."""
    database = database_of(str(client.tracking_uri))
    artifacts = None if database is None else (runs.absolute() / "mlartifacts").as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return str(client.create_experiment(name, artifact_location=artifacts, tags=TRAINING | SAVED_VIEW))
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


def plain_name(name: str) -> str:
    """A name as MLflow takes it: letters, digits, `_-.:/` and spaces, in parts that are neither empty nor dots."""
    text = re.sub(r"[^\w/.\- :]+", "_", name.replace("@", "_at_"))
    return "/".join(part for part in text.split("/") if part.strip(" ."))[:LONGEST_KEY].lstrip(".").rstrip("/")


def reason(error: BaseException) -> str:
    """What an error says, in a few words: MLflow's fill a screen."""
    line = without_credentials(next(iter(str(error).splitlines()), type(error).__name__))
    return line if len(line) <= LONGEST_REASON else f"{line[:LONGEST_REASON]}…"
