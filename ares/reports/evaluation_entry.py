"""MLflow: the entry of an evaluation, below the run that was evaluated.

Covered: settings and conditions of the measurement as parameters, estimates with their intervals as metrics (pass@1 is
`eval/pass_at_1`), the table of problems, comparisons; the same evaluation reuses its entry, and logging it again adds
no row. Not covered: runs (ares/reports/mlflow.py), the estimates themselves (ares/evaluation).
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ares.evaluation import Evaluation
from ares.reports.mlflow import AWAY, data_set, is_gone, log_settings, open_experiment, origin
from ares.runs import code_version
from ares.store import RunStore, runs_directory, tracking_uri

logger = logging.getLogger(__name__)
ENTRY = "mlflow.json"
"""File in an evaluation's folder: its entry, and a hash of what was logged last."""
FILES = ("problems.parquet", "summary.json", "comparison-*.json")
DECIDED_BY = ("target", "step", "weights", "suite", "form", "samples", "temperature", "packages", "turns")
"""Fields of an evaluation's description that are logged as parameters such as `eval.suite`."""


def log_evaluation(evaluation: Evaluation, summary: Mapping[str, Any]) -> None:
    """Log an evaluation, unless it is logged already or tracking.kind is not MLflow.

    If MLflow is away, warn: the same command logs it later.
    """
    tracking, store = evaluation.config.tracking, evaluation.run.store
    if tracking.kind != "mlflow":
        return
    uri = tracking_uri(tracking.uri, runs_directory())
    digest = hashlib.sha256(json.dumps(summary, sort_keys=True).encode()).hexdigest()[:16]
    entry = _entry_of(store)
    try:
        client = MlflowClient(tracking_uri=uri)
        if "run_id" not in entry or is_gone(client, entry["run_id"]):
            entry = {"run_id": _created(client, evaluation)}
            store.write_json(ENTRY, entry)  # at once: what fails after it finds the entry when it is tried again
        if entry.get("logged") == digest:
            return
        client.set_terminated(entry["run_id"], "RUNNING")
        _log(client, entry["run_id"], evaluation, summary)
        client.set_terminated(entry["run_id"])
        store.write_json(ENTRY, entry | {"logged": digest})
    except AWAY as error:
        logger.warning(
            "MLflow at %s is away, the evaluation is not there (the same command logs it): %s",
            uri,
            str(error).splitlines()[0],
        )


def metrics_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a summary under names that MLflow allows."""
    metrics = {"eval/problems": float(summary["problems"]), "eval/unscored": float(summary["unscored"])}
    metrics |= {f"eval/{name}": summary[name] for name in ("mean_length", "truncated")}
    metrics |= {f"eval/error/{name}": share for name, share in summary.get("error_types", {}).items()}
    metrics |= {name: value for name, value in summary.items() if name.startswith("mismatch/")}
    if "references" in summary:
        metrics |= {f"eval/references/{name}": float(summary["references"][name]) for name in ("solutions", "accepted")}
    for of, estimates in {"": summary["estimates"], **summary["sets"]}.items():
        metrics |= dict(_figures(f"eval/{of}/" if of else "eval/", estimates))
    return metrics


def _figures(prefix: str, estimates: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    for name, estimate in estimates.items():
        if estimate["value"] is not None:
            called = prefix + name.replace("@", "_at_")
            yield called, estimate["value"]
            yield f"{called}_low", estimate["low"]
            yield f"{called}_high", estimate["high"]


def _entry_of(store: RunStore) -> dict[str, str]:
    try:
        return dict(json.loads(store.here(ENTRY).read_bytes()))
    except (OSError, ValueError, TypeError):  # none yet, or half of one
        return {}


def _created(client: MlflowClient, evaluation: Evaluation) -> str:
    config, store = evaluation.config, evaluation.run.store
    experiment = open_experiment(client, config.tracking.experiment, runs_directory())
    tags = config.tracking.tags | origin("ares eval", config, code_version(), store)
    if evaluation.description["step"] is not None:
        evaluated = RunStore(runs_directory() / evaluation.request.target).read_run()
        if evaluated.get("mlflow_run_id"):
            tags[MLFLOW_PARENT_RUN_ID] = evaluated["mlflow_run_id"]
    return str(client.create_run(experiment, run_name=store.directory.name, tags=tags).info.run_id)


def _log(client: MlflowClient, run_id: str, evaluation: Evaluation, summary: Mapping[str, Any]) -> None:
    asked = {f"eval.{name}": summary[name] for name in DECIDED_BY if name in summary}
    log_settings(client, run_id, evaluation.config, asked)
    used = data_set(str(summary["source"]), str(summary["data"]), "evaluation")
    client.log_inputs(run_id, datasets=[used])
    now = int(time.time() * 1000)
    values = metrics_of(summary)
    client.log_batch(
        run_id, metrics=[Metric(name, value, now, evaluation.number) for name, value in sorted(values.items())]
    )
    directory = evaluation.run.store.directory
    for path in (path for pattern in FILES for path in sorted(directory.glob(pattern))):
        client.log_artifact(run_id, str(path))
