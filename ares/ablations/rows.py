"""An ablation as its children's commits hold it: its definition, every row of every metric. The report's only source.

Not covered: what the values mean (ares/ablations/measures.py).
"""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ares.ablations.definition import Ablation
from ares.config import ConfigError, nearest, result_settings
from ares.runs import read_config
from ares.store import Commit, DamagedArtifact, RunStore

logger = logging.getLogger(__name__)

TOKENS = "perf/total_num_tokens"
"""Sampled tokens of a step."""
FILE = "ablation.json"
"""File in the ablation's folder: its definition when it was last started, and its MLflow run."""
Key = tuple[str, int]
"""Variant and seed of a child."""


@dataclass(eq=False)
class ChildRows:
    """What one child has logged."""

    run_id: str | None
    """Of MLflow's entry; None if MLflow has none."""
    name: str
    variant: str
    seed: int
    code_version: str
    settings: dict[str, str]
    rows: pd.DataFrame = field(repr=False)
    """A row a step and a column a metric; NaN where it was not logged, or was not finite."""
    problems: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)
    """The accuracy on each held-out problem, a row an evaluation's step and a column a problem."""

    @property
    def key(self) -> Key:
        """Variant and seed."""
        return self.variant, self.seed

    def tokens_at(self, step: int) -> float:
        """Tokens sampled up to the end of a step, including the bootstrap."""
        return float(self.rows[TOKENS].loc[:step].sum()) if TOKENS in self.rows else 0.0


@dataclass
class AblationRows:
    """What all children have logged."""

    uri: str
    """MLflow's."""
    experiment_id: str
    run_id: str
    definition: Ablation
    command_line: str
    children: list[ChildRows]
    """In the definition's order: variant, then seed. Those that have not been started are missing."""

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


def read_file(folder: Path) -> dict[str, Any]:
    """What the file in an ablation's folder says; nothing before it has started."""
    file = folder / FILE
    stored = dict(json.loads(file.read_text())) if file.exists() else {}
    if isinstance(definition := stored.get("definition"), str):
        stored["definition"] = json.loads(definition)
    return stored


def read_rows(name: str, runs: Path) -> AblationRows:
    """Read the rows of an ablation that was started, from the directory of runs. Raises ConfigError or StoreError."""
    stored = read_file(runs / name)
    if "definition" not in stored:
        known = nearest(name, sorted(file.parent.name for file in runs.glob(f"*/{FILE}")))
        raise ConfigError(f"{runs} holds no ablation {name!r} that was started by this version of ares ({known})")
    definition = Ablation.model_validate(stored["definition"])
    wanted = [(variant, seed) for variant in definition.variants for seed in sorted(definition.seeds)]
    stores = {key: RunStore(runs / definition.name_child(*key)) for key in wanted}
    return AblationRows(
        uri=stored["mlflow_uri"],
        experiment_id=stored["mlflow_experiment_id"],
        run_id=stored["mlflow_run_id"],
        definition=definition,
        command_line=stored["command_line"],
        children=[_read_child(store, *key) for key, store in stores.items() if store.exists()],
    )


def _read_child(store: RunStore, variant: str, seed: int) -> ChildRows:
    described, commits = store.read_run(), [store.read_commit(step) for step in store.committed_steps()]
    config = read_config(store)
    rows = {commit.step: commit.metrics | commit.timings for commit in commits}
    problems = {commit.step: _read_problems(store, commit) for commit in commits if "evaluation" in commit.artifacts}
    return ChildRows(
        run_id=described["mlflow_run_id"],
        name=store.name,
        variant=variant,
        seed=seed,
        code_version=described["code_version"],
        settings={name: str(value) for name, value in result_settings(config).items()},
        rows=pd.DataFrame.from_dict(rows, orient="index", dtype=float),
        problems=pd.DataFrame.from_dict(problems, orient="index"),
    )


def _read_problems(store: RunStore, commit: Commit) -> pd.Series:
    """The accuracy on each held-out problem of an evaluation; empty, with a warning, if its file is lost."""
    try:
        scored = store.read_rows(commit.artifacts["evaluation"]).dropna(subset="accuracy")
    except DamagedArtifact as error:
        logger.warning("%s, step %d: values by problem are left out: %s", store.name, commit.step, error)
        return pd.Series(dtype=float)
    return scored["accuracy"].astype(float).groupby(scored["id"]).mean()
