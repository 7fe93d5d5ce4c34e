"""A run's learner and engine in the test's own process, without Ray: the real cluster but for its actors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flows.train
from ares.workers.actors import EngineActor, LearnerActor
from ares.workers.cluster import Cluster
from tests import mlflow_database


class InProcessLearner:
    """In place of a LearnerGroup."""

    def __init__(self, actor: LearnerActor) -> None:
        self.actor = actor

    async def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self.actor, method)(*arguments)

    async def update(self, batch: Any, beta: Any, progress: Callable[[int], None] | None = None) -> Any:
        *steps, result = self.actor.update(batch, beta)
        for done in steps if progress is not None else []:
            progress(done)
        return result

    def weights(self) -> Any:
        return {name: array.copy() for name, array in self.actor.weights().items()}  # as one that Ray hands over

    def kill(self) -> None:
        pass


class InProcessEngine:
    """In place of an EngineGroup."""

    def __init__(self, actor: EngineActor) -> None:
        self.actor = actor

    async def load_weights(self, version: int, weights: Any) -> None:
        self.actor.load_weights(version, weights)

    async def generate(
        self, requests: Any, settings: Any, finished: Callable[[pd.DataFrame], None] | None
    ) -> pd.DataFrame:
        found = list(self.actor.generate(requests, settings))
        for rows in found if finished is not None else []:
            finished(rows)
        return pd.concat(found).sort_index()

    def kill(self) -> None:
        pass


class InProcessCluster(Cluster):
    """Learner and engine here, made from `config` itself, so that what they read of it can be watched."""

    def _start(self) -> None:
        pass

    def _start_learner(self) -> Any:
        return InProcessLearner(LearnerActor(self.config, str(self.store.directory)))  # type: ignore[arg-type]

    def _start_engine(self) -> Any:
        return InProcessEngine(EngineActor(self.sampling))  # type: ignore[arg-type]


class NoTracking:
    """In place of MLflow."""

    def catch_up(self) -> None:
        pass

    def finish(self) -> None:
        pass


def run_in_this_process(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs lie in `runs`: `flows.train` trains them without Ray and without MLflow, which evaluations have there."""
    monkeypatch.setenv("ARES_RUNS", str(runs))
    mlflow_database.beside(runs)
    for module in ("ares.runs.run", "ares.runs.lineage", "ares.evaluation.evaluation"):
        monkeypatch.setattr(f"{module}.Cluster", InProcessCluster)
    monkeypatch.setattr(flows.train, "load_tracker", lambda *_: NoTracking())
