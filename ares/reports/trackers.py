"""Trackers besides MLflow: JSON lines, TensorBoard, W&B, Trackio. Each logs the metrics and timings of commits.

The run directory is the truth: JSON lines, TensorBoard's events and Trackio's runs are written anew when a run resumes,
so that no step is there twice; what W&B has is noted in wandb.json. Not covered: samples, which MLflow has
(ares/reports/mlflow.py).
"""

import contextlib
import hashlib
import json
import logging
import shutil
import sys
import time
from importlib import import_module
from typing import Any

from ares.config import Config, TrackingConfig
from ares.errors import UserError
from ares.reports.reporting import Tracker
from ares.store import Commit, RunStore

logger = logging.getLogger(__name__)
WRITTEN_SECONDS = 30.0
"""After so long W&B has written a row; a younger one may be lost with the process."""


class JsonLines(Tracker):
    """metrics.jsonl in the run directory, a line for each step."""

    def log(self, commit: Commit) -> None:
        """Append a line; the bootstrap's begins the file."""
        line = {"step": commit.step, "timestamp": commit.timestamp} | commit.metrics | commit.timings
        with (self.store.directory / "metrics.jsonl").open("a" if commit.step else "w", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class TensorBoard(Tracker):
    """Event files in the folder `tensorboard` of the run directory."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        self.tensorboard, self.writer = _import("torch.utils.tensorboard", "tensorboard"), None

    def begin(self) -> None:
        """Begin the folder."""
        if self.writer is not None:
            self.writer.close()
        folder = self.store.directory / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self.writer = self.tensorboard.SummaryWriter(str(folder))

    def log(self, commit: Commit) -> None:
        """Log each number with the commit's own time."""
        assert self.writer is not None
        for name, value in (commit.metrics | commit.timings).items():
            self.writer.add_scalar(name, value, commit.step, walltime=commit.timestamp / 1000)
        self.writer.flush()


class WeightsAndBiases(Tracker):
    """A run of the project tracking.experiment; with WANDB_MODE=offline in the run directory, for `wandb sync`."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        self.wandb, self.is_away = _import("wandb", "wandb"), False
        self.run: Any = None
        self.note, self.newest = store.directory / "wandb.json", -1
        if self.note.exists():
            self.newest = json.loads(self.note.read_text(encoding="utf-8"))["logged"]
        self._given: dict[int, float] = {}
        """When each step was given to W&B."""

    def catch_up(self) -> None:
        """Log every commit that is not logged yet. If W&B is away, warn once: the next call catches up."""
        steps = self.store.committed_steps()
        if self.run is None and steps:
            try:
                self.run = self.wandb.init(
                    project=self.settings.experiment, name=self.store.name, dir=str(self.store.directory),
                    id=_identify(self.store), resume="allow",
                    config=self.config.model_dump(mode="json"), tags=list(map("=".join, self.settings.tags.items())),
                )  # fmt: skip
                if not self.run.offline:  # then W&B says itself what it has
                    self.newest = self.run.starting_step - 1
            except self.wandb.Error as error:
                if not self.is_away:
                    logger.warning("W&B is away, training continues: %s", " ".join(str(error).split()))
                self.is_away = True
        if self.run is not None:
            self._note_written(WRITTEN_SECONDS)
            super().catch_up()

    def log(self, commit: Commit) -> None:
        """Log one commit; W&B takes no step twice, so one that was redone stays as it was."""
        assert self.run is not None
        if commit.step > self.newest:
            self.run.log(commit.metrics | commit.timings, step=commit.step, commit=True)  # else it waits for the next
            self.newest, self._given[commit.step] = commit.step, time.monotonic()

    def _note_written(self, seconds: float) -> None:
        """Note the last step that was given so long ago."""
        written = [step for step, given in self._given.items() if time.monotonic() - given >= seconds]
        if written:
            self.note.write_text(json.dumps({"logged": max(written)}), encoding="utf-8")

    def finish(self, exit_code: int = 0) -> None:
        """Log what is left, and close the run."""
        self.catch_up()
        if self.run is not None:
            self.run.finish(exit_code=exit_code)
            self._note_written(0.0)

    def interrupt(self, state: str) -> None:
        """Log what is left, and close the run as failed; a resume continues it."""
        self.finish(1)


class Trackio(Tracker):
    """A run of the project tracking.experiment in the Trackio of this machine (TRACKIO_DIR), for `trackio show`."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        self.trackio, self.run = _import("trackio", "trackio"), None

    def begin(self) -> None:
        """Begin the run, in place of what was logged before a resume or before steps were redone."""
        if self.run is not None:
            with contextlib.redirect_stdout(sys.stderr):
                self.run.finish()
        try:
            earlier = list(self.trackio.Api().runs(self.settings.experiment))
        except ValueError:  # no such project yet
            earlier = []
        for each in earlier:
            if (each.config or {}).get("ares_run") == _identify(self.store):
                each.delete()
        with contextlib.redirect_stdout(sys.stderr):
            self.run = self.trackio.init(
                project=self.settings.experiment, name=self.store.name, embed=False, auto_log_gpu=False,
                auto_log_cpu=False, config=self.config.model_dump(mode="json") | {"ares_run": _identify(self.store)},
            )  # fmt: skip

    def log(self, commit: Commit) -> None:
        """Log one commit."""
        assert self.run is not None
        self.run.log(commit.metrics | commit.timings, step=commit.step)

    def finish(self) -> None:
        """Log what is left, and wait until it is written."""
        self.catch_up()
        if self.run is not None:
            with contextlib.redirect_stdout(sys.stderr):
                self.run.finish()


def _identify(store: RunStore) -> str:
    """What tells a run that has a commit from another of its name."""
    first = store.read_commit(store.committed_steps()[0])
    return hashlib.sha256(f"{store.name} {first.timestamp}".encode()).hexdigest()[:16]


def _import(module: str, package: str) -> Any:
    """A module of an optional package. Raises UserError."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"tracking.kind needs the package {package}, which is not installed: {error}") from error
