"""An ablation as its children's commits hold it: its definition, every row of every metric. The report's only source.

Covered: reading the commits; the same as CSV, a line for every child and step and a column for every metric, with the
held-out problems in a file beside it. The first has a head, YAML behind `# `, with the definition, the children and the
settings in which they differ. Not covered: what the values mean (ares/ablations/comparison.py).
"""

import io
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ares.ablations.definition import Ablation
from ares.config import ConfigError, nearest, result_settings
from ares.store import Commit, DamagedArtifact, RunStore, read_config

logger = logging.getLogger(__name__)

TOKENS = "perf/total_num_tokens"
"""Sampled tokens of a step."""
FILE = "ablation.json"
"""File in the ablation's folder: its definition when it was last started, and its MLflow run."""
CHILD = ["variant", "seed"]
"""Index of what there is once a child."""
ROW = [*CHILD, "step"]
"""Index of what there is once a step."""
HEAD = "# "
ABOUT_AN_ABLATION = ("uri", "experiment_id", "run_id", "command_line")


@dataclass
class AblationRows:
    """What all children have logged."""

    uri: str
    """MLflow's."""
    experiment_id: str
    run_id: str
    definition: Ablation
    command_line: str
    children: dict[Any, dict[str, Any]]
    """Those that were started, by variant and seed in the definition's order: the run_id of MLflow's entry (None: there
    is none), name, variant, seed."""
    settings: pd.DataFrame
    """The settings in which variants differ, a column a variant with any child; NaN where one has no such setting."""
    rows: pd.DataFrame
    """By variant, seed and step, a column a metric; NaN where it was not logged, or was not finite."""
    problems: pd.DataFrame
    """By variant, seed and an evaluation's step the accuracy on each held-out problem, a column a problem."""

    @property
    def logged(self) -> set[str]:
        """The metrics that any child has."""
        return {str(name) for name in self.rows}

    @property
    def tokens(self) -> pd.Series:
        """Tokens sampled up to the end of each step, including the bootstrap."""
        return self.rows.get(TOKENS, pd.Series(0.0, self.rows.index)).fillna(0.0).groupby(CHILD).cumsum()


def as_rows(found: Mapping[tuple[str, int, int], Mapping[str, float]]) -> pd.DataFrame:
    """Values by variant, seed and step as a table."""
    return pd.DataFrame(list(found.values()), pd.MultiIndex.from_tuples(found, names=ROW), dtype=float)


def find_differing(settings: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Of the settings of each variant those in which they differ; all its children have the same ones but the seed."""
    table = pd.DataFrame(settings, dtype=object).drop(index="train.seed", errors="ignore").sort_index()
    return table[table.nunique(axis=1, dropna=False) > 1]


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
    children, settings = dict[tuple[str, int], dict[str, Any]](), dict[str, dict[str, str]]()
    rows, problems = dict[tuple[str, int, int], dict[str, float]](), dict[tuple[str, int, int], dict[str, float]]()
    for variant, seed in product(definition.variants, sorted(definition.seeds)):
        store = RunStore(runs / definition.name_child(variant, seed))
        if not store.exists():
            continue
        described = store.read_run()
        children[variant, seed] = {
            "run_id": described["mlflow_run_id"], "name": store.name, "variant": variant, "seed": seed,
        }  # fmt: skip
        own = result_settings(read_config(store))
        settings.setdefault(variant, {name: str(value) for name, value in own.items()})
        for step in store.committed_steps():
            commit = store.read_commit(step)
            rows[variant, seed, step] = commit.metrics | commit.timings
            if "evaluation" in commit.artifacts:
                problems[variant, seed, step] = _read_problems(store, commit)
    return AblationRows(
        uri=stored["mlflow_uri"],
        experiment_id=stored["mlflow_experiment_id"],
        run_id=stored["mlflow_run_id"],
        definition=definition,
        command_line=stored["command_line"],
        children=children,
        settings=find_differing(settings),
        rows=as_rows(rows),
        problems=as_rows(problems),
    )


def _read_problems(store: RunStore, commit: Commit) -> dict[str, float]:
    """The accuracy on each held-out problem of an evaluation; empty, with a warning, if its file is lost."""
    try:
        scored = store.read_rows(commit.artifacts["evaluation"]).dropna(subset="accuracy")
    except DamagedArtifact as error:
        logger.warning("%s, step %d: values by problem are left out: %s", store.name, commit.step, error)
        return {}
    means = scored["accuracy"].astype(float).groupby(scored["id"]).mean()
    return {str(name): mean for name, mean in means.items()}


def problems_path(rows: Path) -> Path:
    """Where the held-out problems of a file of rows lie."""
    return rows.with_name(f"{rows.stem}-problems.csv")


def write_rows(ablation: AblationRows, metrics: list[str]) -> str:
    """The rows of every child, for some metrics, below a head with everything else that a report shows."""
    head = {
        "definition": ablation.definition.model_dump(mode="json"),
        **{name: getattr(ablation, name) for name in ABOUT_AN_ABLATION},
        "settings": {variant: of.dropna().to_dict() for variant, of in ablation.settings.items()},
        "children": list(ablation.children.values()),
    }
    lines = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=110).splitlines()
    return "".join(f"{HEAD}{line}\n" for line in lines) + ablation.rows[metrics].to_csv(lineterminator="\n")


def read_csv(path: Path) -> AblationRows:
    """The ablation stored in a file of rows. Raises ConfigError if it is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        head = yaml.safe_load("".join(line.removeprefix(HEAD) for line in lines if line.startswith(HEAD)))
        beside = problems_path(path)
        return AblationRows(
            **{name: head[name] for name in ABOUT_AN_ABLATION},
            definition=Ablation.model_validate(head["definition"]),
            children={(each["variant"], each["seed"]): each for each in head["children"]},
            settings=find_differing(head["settings"]),
            rows=_read_lines("".join(line for line in lines if not line.startswith(HEAD))),
            problems=_read_lines(beside.read_text(encoding="utf-8")) if beside.exists() else as_rows({}),
        )
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not the rows of an ablation, as `ares report` writes them ({error})") from error


def _read_lines(text: str) -> pd.DataFrame:
    """A line for each child and step, and the columns that any has a value of."""
    lines = pd.read_csv(
        io.StringIO(text), converters={"variant": str}, float_precision="round_trip", na_values=["inf"]
    ).set_index(ROW)
    return lines.dropna(axis=1, how="all").astype(float)
