"""Trackers besides MLflow: JSON lines, TensorBoard, Weights & Biases. Each logs the metrics and timings of commits.

The run directory is the truth: JSON lines and TensorBoard's events are written anew when a run resumes, so that no step
is there twice; what W&B has is noted in wandb.json. Not covered: samples and plots, which MLflow has (ares/reports/
mlflow.py).
"""

import hashlib
import json
import logging
import math
import shutil
from importlib import import_module
from typing import Any

from ares.config import Config, TrackingConfig
from ares.errors import UserError
from ares.reports.reporting import Tracker
from ares.store import Commit, RunStore

logger = logging.getLogger(__name__)


class _OfCommits(Tracker):
    """Logs each commit once, in order."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        self.logged = -1

    def catch_up(self) -> None:
        """Log every commit that is not logged yet."""
        for step in self.store.committed_steps()[self.logged + 1 :]:
            self.log(self.store.read_commit(step))
            self.logged = step

    def log(self, commit: Commit) -> None:
        """Log one commit."""
        raise NotImplementedError


class JsonLines(_OfCommits):
    """metrics.jsonl in the run directory, a line for each step; a number that is not finite is null."""

    def log(self, commit: Commit) -> None:
        """Append a line; the first of a process begins the file."""
        numbers = commit.metrics | commit.timings
        line = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
        with (self.store.directory / "metrics.jsonl").open("a" if self.logged >= 0 else "w", encoding="utf-8") as file:
            file.write(json.dumps({"step": commit.step, "timestamp": commit.timestamp} | line) + "\n")


class TensorBoard(_OfCommits):
    """Event files in the folder `tensorboard` of the run directory."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        folder = store.directory / "tensorboard"
        shutil.rmtree(folder, ignore_errors=True)
        self.writer = _import("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder))

    def log(self, commit: Commit) -> None:
        """Log each number with the commit's own time."""
        for name, value in (commit.metrics | commit.timings).items():
            self.writer.add_scalar(name, value, commit.step, walltime=commit.timestamp / 1000)
        self.writer.flush()


class WeightsAndBiases(_OfCommits):
    """A run of the project tracking.experiment; with WANDB_MODE=offline in the run directory, for `wandb sync`."""

    def __init__(self, settings: TrackingConfig, config: Config, store: RunStore) -> None:
        super().__init__(settings, config, store)
        self.wandb, self.run, self.is_away = _import("wandb", "wandb"), None, False
        self.note = store.directory / "wandb.json"
        if self.note.exists():
            self.logged = json.loads(self.note.read_text(encoding="utf-8"))["logged"]

    def catch_up(self) -> None:
        """Log every commit that is not logged yet. If W&B is away, warn once: the next call catches up."""
        steps = self.store.committed_steps()
        if self.run is None and steps:
            born = f"{self.store.name} {self.store.read_commit(steps[0]).timestamp}"
            try:
                self.run = self.wandb.init(
                    project=self.settings.experiment, name=self.store.name, dir=str(self.store.directory),
                    id=hashlib.sha256(born.encode()).hexdigest()[:16], resume="allow",
                    config=self.config.model_dump(mode="json"), tags=list(map("=".join, self.settings.tags.items())),
                )  # fmt: skip
            except self.wandb.Error as error:
                if not self.is_away:
                    logger.warning("W&B is away, training continues: %s", " ".join(str(error).split()))
                self.is_away = True
        if self.run is not None:
            super().catch_up()

    def log(self, commit: Commit) -> None:
        """Log one commit, and note that it is."""
        assert self.run is not None
        self.run.log(commit.metrics | commit.timings, step=commit.step)
        self.note.write_text(json.dumps({"logged": commit.step}), encoding="utf-8")

    def finish(self, exit_code: int = 0) -> None:
        """Log what is left, and close the run."""
        self.catch_up()
        if self.run is not None:
            self.run.finish(exit_code=exit_code)

    def interrupt(self, state: str) -> None:
        """Log what is left, and close the run as failed; a resume continues it."""
        self.finish(1)


def _import(module: str, package: str) -> Any:
    """A module of an optional package. Raises UserError."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"tracking.kind needs the package {package}, which is not installed: {error}") from error
