"""An ablation as stored in MLflow: its definition, its children, every row of every metric. The report's only source.

Of several entries of one child (its run directory was deleted and made again) the newest counts, of several rows of one
step (a repeated step) the last. Not covered: what the values mean (ares/ablations/measures.py).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run as Entry
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ares.ablations.definition import Ablation
from ares.errors import UserError
from ares.reports import AWAY, PROBLEMS
from ares.store import database_of

TOKENS = "perf/total_num_tokens"
"""Sampled tokens of a step."""
DEFINITION = "ares.ablation.definition"
"""Tag of an ablation's own MLflow run, the parent of its children's: its YAML."""
Key = tuple[str, int]
"""Variant and seed of a child."""
MOST_ENTRIES = 50_000
"""MLflow returns no more runs of an experiment at once."""


class TrackingError(UserError, RuntimeError):
    """MLflow cannot be reached, or does not know the ablation."""


@dataclass(eq=False)
class ChildRows:
    """One child as MLflow has it."""

    run_id: str
    name: str
    variant: str
    seed: int
    status: str
    code_version: str
    settings: dict[str, str]
    rows: pd.DataFrame = field(repr=False)
    """A row a step and a column a metric. NaN: MLflow has no row; infinite: it has one that holds no number."""
    problems: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    """The accuracy on each held-out problem, a row an evaluation's step and a column a problem."""

    @property
    def key(self) -> Key:
        """Variant and seed."""
        return self.variant, self.seed

    def last_step(self, metric: str) -> int | None:
        """The last step with a row of the metric."""
        steps = self.rows.get(metric, pd.Series(dtype=float)).dropna().index
        return int(steps[-1]) if len(steps) else None

    def tokens_at(self, step: int) -> float:
        """Tokens sampled up to the end of a step, including the bootstrap."""
        return float(self.rows[TOKENS].loc[:step].sum()) if TOKENS in self.rows else 0.0


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
    repeated: list[str] = field(default_factory=list)
    """Children with more than one entry; the newest counts."""

    @property
    def logged(self) -> set[str]:
        """The metrics that any child has."""
        return {str(name) for child in self.children for name in child.rows}

    def find_differing_settings(self) -> pd.DataFrame:
        """The settings in which variants differ, a column a variant with any child; NaN where one has no such setting.

        Every child of a variant has the same ones but for its seed.
        """
        settings = pd.DataFrame({child.variant: child.settings for child in reversed(self.children)}, dtype=object)
        settings = settings[settings.columns[::-1]].drop(index="train.seed", errors="ignore").sort_index()
        return settings[settings.nunique(axis=1, dropna=False) > 1]


@contextmanager
def naming_mlflow(uri: str) -> Iterator[None]:
    """Turn what MLflow raises when it is away into a TrackingError that names its address."""
    try:
        yield
    except AWAY as error:
        raise TrackingError(f"MLflow at {uri}: {str(error).splitlines()[0]}") from error


def read_rows(experiment: str, uri: str) -> AblationRows:
    """Read the newest ablation of an MLflow experiment with all its rows. Raises TrackingError."""
    database = database_of(uri)
    if database is not None and not database.exists():  # reading would create it
        raise TrackingError(f"There are no metrics yet: no {database}")
    with naming_mlflow(uri):
        client = MlflowClient(tracking_uri=uri)
        stored = client.get_experiment_by_name(experiment)
        if stored is None:
            names = sorted(each.name for each in client.search_experiments())
            raise TrackingError(f"MLflow at {uri} has no experiment {experiment!r} (experiments: {', '.join(names)})")
        newest_first = ["attributes.start_time DESC"]
        entries = list(client.search_runs([stored.experiment_id], max_results=MOST_ENTRIES, order_by=newest_first))
        parent = next((entry for entry in entries if DEFINITION in entry.data.tags), None)
        if parent is None:
            raise TrackingError(f"Experiment {experiment!r} of MLflow at {uri} holds no ablation, only single runs")
        definition = Ablation.model_validate(yaml.safe_load(parent.data.tags[DEFINITION]))
        mine = [entry for entry in entries if entry.data.tags.get(MLFLOW_PARENT_RUN_ID) == parent.info.run_id]
        newest = {(entry.data.tags["ares.variant"], int(entry.data.tags["ares.seed"])): entry for entry in mine[::-1]}
        wanted = [(variant, seed) for variant in definition.variants for seed in sorted(definition.seeds)]
        children = [_read_child(client, newest[key], *key) for key in wanted if key in newest]
    names = [str(entry.info.run_name) for entry in mine]
    return AblationRows(
        uri=uri,
        experiment=experiment,
        experiment_id=str(stored.experiment_id),
        run_id=str(parent.info.run_id),
        definition=definition,
        command_line=parent.data.tags.get("ares.ablation.command_line", ""),
        children=children,
        repeated=sorted({name for name in names if names.count(name) > 1}),
    )


def _read_child(client: MlflowClient, entry: Entry, variant: str, seed: int) -> ChildRows:
    run_id, by_metric = str(entry.info.run_id), {}
    for metric in entry.data.metrics:
        history = sorted(client.get_metric_history(run_id, metric), key=lambda row: row.timestamp)
        values = {int(row.step): float(row.value) for row in history}
        by_metric[metric] = pd.Series(values, dtype=float).fillna(np.inf)
    return ChildRows(
        run_id=run_id,
        name=str(entry.info.run_name),
        variant=variant,
        seed=seed,
        status=str(entry.info.status),
        code_version=str(entry.data.tags.get("ares.code_version", "unknown")),
        settings=dict(entry.data.params),
        rows=pd.DataFrame(by_metric).sort_index(),
        problems=_read_problems(client, run_id),
    )


def _read_problems(client: MlflowClient, run_id: str) -> pd.DataFrame:
    """The logged accuracy on each held-out problem, by step; empty for runs before 2026-11-23."""
    if not client.list_artifacts(run_id, PROBLEMS):
        return pd.DataFrame()
    with TemporaryDirectory() as folder:
        files = sorted(Path(client.download_artifacts(run_id, PROBLEMS, folder)).glob("*.json"))
        by_step = {int(file.stem): json.loads(file.read_text(encoding="utf-8")) for file in files}
    return pd.DataFrame.from_dict(by_step, orient="index")
