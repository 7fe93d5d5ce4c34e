"""An ablation as stored in MLflow: its definition, its children, every row of every metric. The report's only source.

Of several entries of one child (its run directory was deleted and made again) the newest counts, of several rows of one
step (a repeated step) the last. Not covered: what the values mean (ares/ablations/measures.py).
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from mlflow import MlflowClient
from mlflow.entities import Run as Entry
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ares.ablations.definition import Ablation
from ares.ablations.tracking import DEFINITION, TrackingError
from ares.reports import AWAY, PROBLEMS
from ares.store import database_of

TOKENS = "perf/total_num_tokens"
"""Sampled tokens of a step."""


@dataclass(frozen=True)
class Row:
    """One stored value of a metric."""

    step: int
    value: float


@dataclass
class ChildRows:
    """One child as MLflow has it."""

    run_id: str
    name: str
    variant: str
    seed: int
    status: str
    code_version: str
    settings: dict[str, str]
    rows: dict[str, list[Row]] = field(repr=False)
    """By metric, one row a step, ascending."""
    problems: dict[int, dict[str, float]] = field(default_factory=dict, repr=False)
    """By step of an evaluation: the accuracy on each held-out problem."""

    @property
    def step(self) -> int:
        """The last step with any row; −1 without one."""
        return max((rows[-1].step for rows in self.rows.values() if rows), default=-1)

    def tokens_at(self, step: int) -> float:
        """Tokens sampled up to the end of a step, including the bootstrap."""
        return sum(row.value for row in self.rows.get(TOKENS, []) if row.step <= step)


@dataclass
class AblationRows:
    """An ablation as MLflow has it."""

    uri: str
    experiment: str
    experiment_id: str
    run_id: str
    definition: Ablation
    command_line: str
    children: list[ChildRows]
    """In the definition's order: variant, then seed. Those that have not been started are missing."""
    repeated: list[str]
    """Children with more than one entry; the newest counts."""

    def of(self, variant: str) -> list[ChildRows]:
        """The children of a variant, by seed."""
        return [child for child in self.children if child.variant == variant]


def read_rows(experiment: str, uri: str) -> AblationRows:
    """Read the newest ablation of an MLflow experiment with all its rows. Raises TrackingError."""
    database = database_of(uri)
    if database is not None and not database.exists():  # reading would create it
        raise TrackingError(f"There are no metrics yet: no {database}")
    try:
        client = MlflowClient(tracking_uri=uri)
        stored = client.get_experiment_by_name(experiment)
        if stored is None:
            names = sorted(each.name for each in client.search_experiments())
            raise TrackingError(f"MLflow at {uri} has no experiment {experiment!r} (experiments: {', '.join(names)})")
        entries = _entries(client, stored.experiment_id)
        parent = next((entry for entry in entries if DEFINITION in entry.data.tags), None)
        if parent is None:
            raise TrackingError(f"Experiment {experiment!r} of MLflow at {uri} holds no ablation, only single runs")
        definition = Ablation.model_validate(yaml.safe_load(parent.data.tags[DEFINITION]))
        mine = [entry for entry in entries if entry.data.tags.get(MLFLOW_PARENT_RUN_ID) == parent.info.run_id]
        newest = {(entry.data.tags["ares.variant"], int(entry.data.tags["ares.seed"])): entry for entry in mine[::-1]}
        wanted = [(variant, seed) for variant in definition.variants for seed in sorted(definition.seeds)]
        children = [_child(client, newest[key], *key) for key in wanted if key in newest]
    except AWAY as error:
        raise TrackingError(f"MLflow at {uri}: {str(error).splitlines()[0]}") from error
    counts = Counter(str(entry.info.run_name) for entry in mine)
    return AblationRows(
        uri=uri,
        experiment=experiment,
        experiment_id=str(stored.experiment_id),
        run_id=str(parent.info.run_id),
        definition=definition,
        command_line=parent.data.tags.get("ares.ablation.command_line", ""),
        children=children,
        repeated=sorted(name for name, count in counts.items() if count > 1),
    )


def _entries(client: MlflowClient, experiment_id: str) -> list[Entry]:
    """Every run of the experiment, newest first."""
    entries: list[Entry] = []
    token = None
    while True:
        page = client.search_runs([experiment_id], order_by=["attributes.start_time DESC"], page_token=token)
        entries += page
        token = page.token
        if not token:
            return entries


def _child(client: MlflowClient, entry: Entry, variant: str, seed: int) -> ChildRows:
    run_id = str(entry.info.run_id)
    return ChildRows(
        run_id=run_id,
        name=str(entry.info.run_name),
        variant=variant,
        seed=seed,
        status=str(entry.info.status),
        code_version=str(entry.data.tags.get("ares.code_version", "unknown")),
        settings=dict(entry.data.params),
        rows={metric: _one_a_step(client.get_metric_history(run_id, metric)) for metric in entry.data.metrics},
        problems=_problems(client, run_id),
    )


def _problems(client: MlflowClient, run_id: str) -> dict[int, dict[str, float]]:
    """By step, the logged accuracy on each held-out problem; empty for runs before 2026-11-23."""
    if not client.list_artifacts(run_id, PROBLEMS):
        return {}
    with TemporaryDirectory() as folder:
        files = sorted(Path(client.download_artifacts(run_id, PROBLEMS, folder)).glob("*.json"))
        return {int(file.stem): json.loads(file.read_text(encoding="utf-8")) for file in files}


def _one_a_step(history: list[Any]) -> list[Row]:
    last: dict[int, Row] = {}
    for metric in sorted(history, key=lambda metric: metric.timestamp):
        last[metric.step] = Row(int(metric.step), float(metric.value))
    return [last[step] for step in sorted(last)]
