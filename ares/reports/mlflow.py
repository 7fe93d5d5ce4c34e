"""MLflow: a run's entry, logged from its commits.

Covered: parameters, metrics with the commit's own timestamp (a replay adds no row), sample tables, the resolved
profile, catching up after MLflow was away. Not covered: comparing runs, which MLflow's UI does.
"""

import json
import logging
import os
from getpass import getuser
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param, RunTag
from mlflow.entities import Run as MlflowRun
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import (
    MLFLOW_DATASET_CONTEXT,
    MLFLOW_GIT_COMMIT,
    MLFLOW_PARENT_RUN_ID,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
    MLFLOW_USER,
)
from sqlalchemy.exc import SQLAlchemyError

from algorithms.buckets import BUCKETS
from ares.config import Config, TrackingConfig, fingerprint, result_settings
from ares.data import MediaError, thumbnail
from ares.reports.pages import VIEW
from ares.reports.tracker import Tracker
from ares.store import Commit, DamagedArtifact, RunStore, tracking_uri

logger = logging.getLogger(__name__)
# It logs the errors that it raises with their traces; here they become one line.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
AWAY = (MlflowException, OSError, SQLAlchemyError)
"""What MLflow raises when it cannot be reached; SQLAlchemyError if its database is locked before it has tables."""
STEPS_PER_CALL = 50
LONGEST_NAME = 500
"""Characters of a data set's name: MLflow refuses a longer one, which a list of files easily makes."""
PROBLEMS = "problems"
"""Folder of artifacts: a file per evaluation with the accuracy on each held-out problem."""
COLUMNS = [
    "metrics.`val/accuracy`", "metrics.`eval/pass_at_1`", "metrics.`reward/sampled_accuracy`",
    "metrics.`perf/total_num_tokens`",
    *(f"metrics.`bucket/{bucket}/{name}`" for name in ("alpha", "beta") for bucket in BUCKETS),
    "params.`train.seed`", "params.`algorithm.kl.kind`", "params.`model.path`", "attributes.`Source`",
]  # fmt: skip
"""Columns of the saved view, named as MLflow's UI does (3.17, undocumented)."""
IMAGE_SIDE = 256
"""Pixels of the longer edge of an image that is logged."""


class Tracking(Tracker):
    """Brings a run's MLflow entry up to its last commit."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        self.uri = tracking_uri(config.tracking.uri, store.directory.parent)
        self._client: MlflowClient | None = None
        self._logged = -1

    def catch_up(self) -> None:
        """Log every commit that is not logged yet. If MLflow is away, warn: the next call catches up.

        A deleted entry is created anew with every commit.
        """
        try:
            client = self._client or self._connect()
            while steps := self.store.committed_steps()[self._logged + 1 :][:STEPS_PER_CALL]:
                self._log(client, [self.store.read_commit(step) for step in steps])
                self._logged = steps[-1]
        except AWAY as error:
            self._client = None  # the next call checks that the entry still exists
            logger.warning("MLflow at %s is away, training continues: %s", self.uri, str(error).splitlines()[0])

    def finish(self) -> None:
        """Log what is left, with the plot of the run, and close the entry."""
        from ares.reports.plots import plot_progress  # matplotlib takes half a second to import

        self.catch_up()
        plot_progress(self.store)
        if self._client is None:
            return
        try:
            self._client.log_artifact(self._id, str(self.store.directory / "progress.png"))
            self._client.set_terminated(self._id)
        except AWAY as error:
            logger.warning("MLflow at %s is away, the plot was not logged: %s", self.uri, str(error).splitlines()[0])

    @property
    def _id(self) -> str:
        return str(self.store.read_run()["mlflow_run_id"])

    def _connect(self) -> MlflowClient:
        client = MlflowClient(tracking_uri=self.uri)
        description = self.store.read_run()
        known = description["mlflow_run_id"]
        if known is None or is_gone(client, known):
            if known is not None:
                logger.warning("MLflow at %s has no entry %s any more: it is made anew", self.uri, known)
            created = self._create(client, description).info
            description |= {"mlflow_run_id": created.run_id, "mlflow_experiment_id": created.experiment_id}
            self.store.write_run(description)  # at once, so that a retry after a failure finds the entry
            self._logged = -1
        else:
            self._logged = _last_logged(client, known)
            client.set_terminated(known, "RUNNING")
        if self._logged < 0:
            self._describe(client)
        self._client = client
        return client

    def _create(self, client: MlflowClient, description: dict[str, Any]) -> MlflowRun:
        settings = self.config.tracking
        experiment_id = open_experiment(client, settings.experiment, self.store.directory.parent)
        tags = settings.tags | origin("ares train", self.config, description["code_version"], self.store)
        fork = self.store.fork()
        if fork is not None:
            tags |= {"ares.forked_from": fork.run, "ares.forked_at_step": str(fork.at)}
            tags |= {"ares.forked_at_phase": fork.phase or "commit", "ares.forked_commit": fork.commit}
        if settings.parent_run is not None:
            tags[MLFLOW_PARENT_RUN_ID] = settings.parent_run
        return client.create_run(experiment_id, run_name=self.store.name, tags=tags)

    def _describe(self, client: MlflowClient) -> None:
        """Log parameters and the profile; repeating it does no harm."""
        log_settings(client, self._id, self.config, {})
        client.log_inputs(self._id, datasets=self._data_sets())

    def _data_sets(self) -> list[DatasetInput]:
        """Train and held-out sets."""
        digests, data = self.store.read_run().get("digests", {}), self.config.data
        held_out = ", ".join(data.held_out_names) if isinstance(data.validation, dict) else data.validation
        named = (("train", data.train, "training"), ("validation", held_out, "validation"))
        return [data_set(str(source), digests[name], context) for name, source, context in named if digests.get(name)]

    def _log(self, client: MlflowClient, commits: list[Commit]) -> None:
        rows = [
            Metric(name, value, commit.timestamp, commit.step)
            for commit in commits
            for name, value in sorted((commit.metrics | commit.timings).items())
        ]
        client.log_batch(self._id, metrics=rows)
        for commit in commits:
            if "evaluation" in commit.artifacts:
                self._log_evaluation(client, commit)
        # Last, so that it is set only once everything before it has arrived.
        client.log_batch(self._id, tags=[RunTag("ares.logged_step", str(commits[-1].step))])

    def _log_evaluation(self, client: MlflowClient, commit: Commit) -> None:
        """Accuracies per held-out problem, and a table of held-out and one of training samples.

        A table that was lost is left out with a warning: its step is done, and training needs it no more.
        """
        samples = ("evaluation", "samples") if self.config.tracking.samples else ()
        for name in dict.fromkeys(("evaluation", *samples)):
            try:
                table = self.store.read_rows(commit.artifacts[name])
            except DamagedArtifact as error:
                logger.warning("step %d: %s samples are not in MLflow: %s", commit.step, name, error)
                continue
            if name == "evaluation":
                scored = table.dropna(subset="accuracy")
                accuracies = scored["accuracy"].astype(float).groupby(scored["id"]).mean().to_dict()
                client.log_dict(self._id, accuracies, f"{PROBLEMS}/{commit.step:06d}.json")
            if name in samples:
                self._log_samples(client, name, commit.step, table)

    def _log_samples(self, client: MlflowClient, name: str, step: int, table: pd.DataFrame) -> None:
        """The first samples of a table, with every part of their reward."""
        table = table.head(self.config.tracking.samples)
        client.log_dict(self._id, json.loads(table.to_json(orient="split", index=False)), f"{name}/{step:06d}.json")
        if "media_references" in table:
            self._log_images(client, name, step, table["media_references"])

    def _log_images(self, client: MlflowClient, name: str, step: int, media: pd.Series) -> None:
        """Log a thumbnail of each image in a table of samples once."""
        for place, reference in enumerate(dict.fromkeys(each for row in media for each in row)):
            try:
                small = thumbnail(reference, IMAGE_SIDE)
            except MediaError as error:
                logger.warning("not shown in MLflow: %s", error)
                continue
            client.log_image(self._id, small, key=f"{name}-{place:02d}", step=step, synchronous=True)


def open_experiment(client: MlflowClient, name: str, runs: Path) -> str:
    """Id of the experiment called `name`, created if missing. A local one keeps its artifacts beside the runs."""
    view = {f"mlflow.sharedViewState.{VIEW}": json.dumps({"selectedColumns": COLUMNS})}
    experiment = client.get_experiment_by_name(name)
    if experiment is not None:
        for key in view.keys() - experiment.tags.keys():  # one of before there were views
            client.set_experiment_tag(experiment.experiment_id, key, view[key])
        return str(experiment.experiment_id)
    local = str(client.tracking_uri).startswith("sqlite:")
    artifacts = (runs.absolute() / "mlartifacts").as_uri() if local else None
    # Without its kind MLflow's UI opens on evaluations of agents instead of training curves.
    kind = {"mlflow.experimentKind": "custom_model_development"}
    return str(client.create_experiment(name, artifact_location=artifacts, tags=kind | view))


def log_settings(client: MlflowClient, run_id: str, config: Config, more: dict[str, Any]) -> None:
    """Log settings and `more` as parameters, and the profile; repeating it does no harm."""
    params = [Param(key, str(value)[:500]) for key, value in (result_settings(config) | more).items()]
    client.log_batch(run_id, params=params)
    profile = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    client.log_text(run_id, profile, "profile.yaml")


def origin(command: str, config: Config, code_version: str, store: RunStore) -> dict[str, str]:
    """Tags of an entry: user, command, versions of code and settings, directory."""
    return {
        MLFLOW_USER: _user(),
        MLFLOW_SOURCE_TYPE: "LOCAL",
        MLFLOW_SOURCE_NAME: command,
        **_commit_tag(code_version),
        "ares.fingerprint": fingerprint(config),
        "ares.code_version": code_version,
        "ares.directory": str(store.directory.absolute()),
    }


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a container may run as a number that no name belongs to
        return str(os.getuid())


def data_set(source: str, digest: str, context: str) -> DatasetInput:
    """A data set for MLflow: name, digest, source, and what it was used for."""
    name = source if len(source) <= LONGEST_NAME else f"{source[: LONGEST_NAME - 1]}…"
    named = Dataset(name=name, digest=digest[:36], source_type="ares", source=json.dumps(name))
    return DatasetInput(named, [InputTag(MLFLOW_DATASET_CONTEXT, context)])


def _commit_tag(code_version: str) -> dict[str, str]:
    """The commit of the code, if it has one; a checkout may have had changes besides."""
    commit, _, _ = code_version.partition("+")
    return {MLFLOW_GIT_COMMIT: commit} if len(commit) == 40 else {}


def is_gone(client: MlflowClient, run_id: str) -> bool:
    """Whether an entry was deleted, or was in another machine's database."""
    try:
        return bool(client.get_run(run_id).info.lifecycle_stage == LifecycleStage.DELETED)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return True


def _last_logged(client: MlflowClient, run_id: str) -> int:
    return int(client.get_run(run_id).data.tags.get("ares.logged_step", -1))
