"""MLflow: a run's entry, logged from its commits.

Covered: parameters, metrics with the commit's own timestamp (a replay adds no row), sample tables, the resolved
profile, catching up after MLflow was away. Not covered: comparing runs, which MLflow's UI does.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ares.config import Config, TrackingConfig
from ares.data import MediaError, thumbnail
from ares.printable import without_credentials
from ares.reports.entry import AWAY, Entry, find_or_create, origin, reason
from ares.reports.mlflow_internals import VIEW
from ares.reports.reporting import Tracker
from ares.store import Commit, DamagedArtifact, RunStore, mlflow_page, tracking_uri

logger = logging.getLogger(__name__)
STEPS_PER_CALL = 50
COMMIT = "ares.logged_commit"
"""Tag of an entry: the digest of the last commit that is logged completely."""
IMAGE_SIDE = 256
"""Pixels of the longer edge of an image that is logged."""


class Tracking(Tracker):
    """Brings a run's MLflow entry up to its last commit."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        self.uri = tracking_uri(config.tracking.uri, store.directory.parent)
        self._entry: Entry | None = None
        self._is_away = False

    def catch_up(self) -> None:
        """Log every commit that is not logged yet. If MLflow is away, warn once: the next call catches up.

        A deleted entry is created anew with every commit. Of steps that the run has redone MLflow keeps both.
        """
        with self._noticing_absence():
            self._entry = self._entry or self._open()
            self._log_left(self._entry)
            self._is_away = False

    def _log_left(self, entry: Entry) -> None:
        while steps := self.unlogged()[:STEPS_PER_CALL]:
            if self.logged is not None and steps[0] == 0:  # the same numbers of the same time add nothing
                logger.warning("%s has redone steps that were logged: they are logged again", self.store.name)
            self._log(entry, [self.store.read_commit(step) for step in steps])
            self.logged = self.store.digest(steps[-1])

    def finish(self) -> None:
        """Log what is left, and close the entry."""
        self.catch_up()
        with self._noticing_absence():
            if self._entry is not None:
                self._entry.client.set_terminated(self._entry.run_id)
        if self._entry is None:
            logger.warning("MLflow lacks a part of this run; when it is back: ares resume %s", self.store.name)

    def interrupt(self, state: str) -> None:
        """Set the entry's state, so that it is not shown as running, and log what is left. A resume sets it back."""
        if self._entry is not None:
            with self._noticing_absence():
                self._entry.client.set_terminated(self._entry.run_id, state)
                self._log_left(self._entry)

    @contextmanager
    def _noticing_absence(self) -> Iterator[None]:
        """Warn, once, if MLflow is away; the next call checks that the entry still exists."""
        try:
            yield
        except AWAY as error:
            self._entry = None
            if not self._is_away:
                where = without_credentials(self.uri)
                logger.warning("MLflow at %s is away, training continues: %s", where, reason(error))
            self._is_away = True

    def _open(self) -> Entry:
        description = self.store.read_run()
        known, code_version = description["mlflow_run_id"], description["code_version"]
        tags = origin("ares train", self.config, code_version, self.store)
        if self.settings.parent_run is not None:
            tags[MLFLOW_PARENT_RUN_ID] = self.settings.parent_run
        entry, experiment = find_or_create(self.uri, self.config, self.store, known, tags)
        if entry.run_id != known:  # written at once, so that a retry after a failure finds the entry
            self.store.update_run(mlflow_run_id=entry.run_id, mlflow_experiment_id=experiment)
        if (page := mlflow_page(self.uri, self.store.directory.parent)) is not None:
            there = f"{page}/#/experiments/{experiment}/runs"
            beside = f"{there}?workflowType=machine_learning&viewStateShareKey={VIEW}"  # else MLflow's page of traces
            logger.info("%s: curves at %s/%s, beside the others' at %s", self.store.name, there, entry.run_id, beside)
        self.logged = entry.client.get_run(entry.run_id).data.tags.get(COMMIT)
        if self.logged is None:
            self._describe(entry)
        return entry

    def _describe(self, entry: Entry) -> None:
        """Log tags, parameters, the profile and the data; repeating it does no harm."""
        tags = dict(self.settings.tags)
        if (fork := self.store.fork()) is not None:
            tags |= {"ares.forked_from": fork.run, "ares.forked_at_step": str(fork.at)}
            tags |= {"ares.forked_at_phase": fork.phase or "commit", "ares.forked_commit": fork.commit}
        entry.log_tags(tags)
        entry.log_settings(self.config, {})
        digests, data = self.store.read_run().get("digests", {}), self.config.data
        held_out = ", ".join(data.held_out_names) if isinstance(data.validation, dict) else data.validation
        for name, source, context in (("train", data.train, "training"), ("validation", held_out, "validation")):
            if digests.get(name):
                entry.log_data(str(source), digests[name], context)

    def _log(self, entry: Entry, commits: list[Commit]) -> None:
        entry.log_metrics([(commit.step, commit.timestamp, commit.metrics | commit.timings) for commit in commits])
        for commit in commits:
            if self.settings.samples and "evaluation" in commit.artifacts:
                self._log_evaluation(entry, commit)
        # Last, so that it is set only once everything before it has arrived.
        entry.client.set_tag(entry.run_id, COMMIT, commits[-1].digest())

    def _log_evaluation(self, entry: Entry, commit: Commit) -> None:
        """A table of held-out and one of training samples.

        One that was lost is left out with a warning: its step is done, and training needs it no more.
        """
        for name in ("evaluation", "samples"):
            try:
                table = self.store.read_rows(commit.artifacts[name])
            except DamagedArtifact as error:
                logger.warning("step %d: %s samples are not in MLflow: %s", commit.step, name, error)
            else:
                self._log_samples(entry, name, commit.step, table.head(self.settings.samples))

    def _log_samples(self, entry: Entry, name: str, step: int, table: pd.DataFrame) -> None:
        """A table of samples with every part of their reward, and once each thumbnail of their images."""
        shown = json.loads(table.to_json(orient="split", index=False))
        entry.client.log_dict(entry.run_id, shown, f"{name}/{step:06d}.json")
        media = table.get("media_references", ())
        for place, reference in enumerate(dict.fromkeys(each for row in media for each in row)):
            try:
                small = thumbnail(reference, IMAGE_SIDE)
            except MediaError as error:
                logger.warning("not shown in MLflow: %s", error)
                continue
            entry.client.log_image(entry.run_id, small, key=f"{name}-{place:02d}", step=step, synchronous=True)
