"""MLflow: entries below a run's, of an evaluation and of its samples judged again.

Covered: settings and conditions of the measurement as parameters, estimates with their intervals as metrics (pass@1 is
`eval/pass_at_1`), counts of changed verdicts by step (`rescore/changed`), tables; the same question reuses its entry,
and logging it again adds no row. Not covered: runs (ares/reports/mlflow.py), the estimates themselves (ares/evaluation,
ares/history).
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID, MLFLOW_RUN_NAME

from ares.config import Config
from ares.evaluation import Evaluation
from ares.reports.entry import AWAY, Entry, find_or_create, origin, reason
from ares.runs import code_version
from ares.store import RunStore, runs_directory, tracking_uri

logger = logging.getLogger(__name__)
ENTRY = "mlflow.json"
"""File beside what is logged: its entry."""
FILES = ("problems.parquet", "summary.json", "comparison-*.json")
DECIDED_BY = ("target", "step", "weights", "suite", "form", "samples", "temperature", "packages", "turns")
"""Fields of an evaluation's description that are logged as parameters such as `eval.suite`."""


def log_evaluation(evaluation: Evaluation, summary: Mapping[str, Any]) -> None:
    """Log an evaluation, unless tracking.kind has no MLflow.

    If MLflow is away, warn: the same command logs it later.
    """
    tracking, store = evaluation.config.tracking, evaluation.run.store
    if "mlflow" not in tracking.kinds:
        return
    tags = origin("ares eval", evaluation.config, code_version(), store) | _parent(evaluation)
    _log_beside(evaluation.config, store, ENTRY, tags, lambda entry: _log(entry, evaluation, summary))


def log_rescore(store: RunStore, config: Config, folder: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Log samples of a run in MLflow that were judged again, by the reward of `config`.

    folder: of the run's, with the verdicts; steps: `step` and the counts of each.
    """
    tags = origin("ares rescore", config, code_version(), store)
    tags[MLFLOW_PARENT_RUN_ID] = store.read_run()["mlflow_run_id"]

    def log(entry: Entry) -> None:
        entry.client.set_tag(entry.run_id, MLFLOW_RUN_NAME, f"{store.name} judged again")
        entry.log_settings(config, {})
        rows = []
        for one in steps:
            time = store.read_commit(one["step"]).timestamp  # logged twice it adds nothing
            rows.append((one["step"], time, {f"rescore/{name}": float(one[name]) for name in one if name != "step"}))
        entry.log_metrics(rows)
        for file in sorted(store.children(folder)):
            if file.suffix == ".parquet":
                entry.client.log_artifact(entry.run_id, str(store.here(store.name_of(file))))

    _log_beside(config, store, f"{folder}/{ENTRY}", tags, log)


def _log_beside(
    config: Config, store: RunStore, file: str, tags: Mapping[str, str], log: Callable[[Entry], None]
) -> None:
    """Log in an entry of its own, which a file of the store names; `log`: harmless where all of it is there."""
    uri, noted = tracking_uri(config.tracking.uri, runs_directory()), store.here(file)
    known = json.loads(noted.read_bytes())["run_id"] if noted.exists() else None
    try:
        entry, _ = find_or_create(uri, config, store, known, tags)
        store.write_json(file, {"run_id": entry.run_id})  # at once: what fails after it is tried again
        log(entry)
        entry.client.set_terminated(entry.run_id)
    except AWAY as error:
        logger.warning("MLflow at %s is away, this is not there (the same command logs it): %s", uri, reason(error))


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
            for end in ("low", "high"):
                if estimate[end] is not None:
                    yield f"{called}_{end}", estimate[end]


def _parent(evaluation: Evaluation) -> dict[str, str]:
    """The tag that names the entry of the run that was evaluated."""
    if evaluation.description["step"] is None:
        return {}
    known = RunStore(runs_directory() / evaluation.request.target).read_run().get("mlflow_run_id")
    return {MLFLOW_PARENT_RUN_ID: known} if known else {}


def _log(entry: Entry, evaluation: Evaluation, summary: Mapping[str, Any]) -> None:
    entry.log_tags(evaluation.config.tracking.tags)
    asked = {f"eval.{name}": summary[name] for name in DECIDED_BY if name in summary}
    entry.log_settings(evaluation.config, asked)
    entry.log_data(str(summary["source"]), str(summary["data"]), "evaluation")
    began = entry.client.get_run(entry.run_id).info.start_time  # always the same, so that logging again adds no row
    entry.log_metrics([(evaluation.number, began, metrics_of(summary))])
    directory = evaluation.run.store.directory
    for path in (path for pattern in FILES for path in sorted(directory.glob(pattern))):
        entry.client.log_artifact(entry.run_id, str(path))
