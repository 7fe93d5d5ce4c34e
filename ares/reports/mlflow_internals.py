"""What ares uses of MLflow that its documentation does not promise. Each entry: why, since when, what notices a change.

All were tried with MLflow 3.17.
"""

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

from algorithms.buckets import BUCKETS

# MLflow logs the errors that it raises with their traces; here they become one line. Without this logger, or under
# another name, traces appear again. Noticed by: nothing (only the terminal is fuller).
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)

VIEW = "ares"
"""Key of the saved view: the page of an experiment shows it at `?viewStateShareKey=ares`."""
TRAINING = {"mlflow.experimentKind": "custom_model_development"}
"""Without this tag MLflow's UI opens an experiment on evaluations of agents instead of training curves (3.5).
Noticed by: tests/ares/reports/test_mlflow.py."""

_COLUMNS = [
    "metrics.`val/accuracy`", "metrics.`eval/pass_at_1`", "metrics.`reward/sampled_accuracy`",
    "metrics.`perf/total_num_tokens`",
    *(f"metrics.`bucket/{bucket}/{name}`" for name in ("alpha", "beta") for bucket in BUCKETS),
    "params.`train.seed`", "params.`algorithm.kl.kind`", "params.`model.path`", "attributes.`Source`",
]  # fmt: skip
SAVED_VIEW = {f"mlflow.sharedViewState.{VIEW}": json.dumps({"selectedColumns": _COLUMNS})}
"""A tag of experiments that holds what a shared link of the UI shows (3.0): the columns of the table of runs.
Noticed by: tests/ares/reports/test_mlflow.py."""


def move_artifacts(database: Path, before: str, now: str) -> None:
    """Tell a database that a folder of artifacts (both its URIs) has moved: MLflow keeps absolute addresses.

    No interface of MLflow changes an address; the two columns have been there since 1.0. Noticed by:
    tests/ares/reports/test_mlflow.py.
    """
    with closing(sqlite3.connect(database)) as opened, opened:
        for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
            opened.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column} || '/', 1, ?) = ?",
                (now, len(before) + 1, len(before) + 1, f"{before}/"),
            )
