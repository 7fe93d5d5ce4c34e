"""Delete MLflow entries: those of runs that are gone, and those in MLflow's trash.

Covered: the database beside the runs, which `ares up`'s server uses too. Not covered: an MLflow elsewhere, whose
database only an `mlflow gc` there can reach; when to delete (flows/retention.py).

An entry is deleted in two steps: moved to MLflow's trash, where the UI can restore it, and removed thirty days later.
"""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import LifecycleStage, ViewType
from mlflow.entities import Run as MlflowRun
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ares.errors import UserError
from ares.reports.entry import AWAY, reason
from ares.runs import TRASH_DAYS
from ares.store import RunStore, runs_in

DAY = 24 * 3600.0


class EntriesError(UserError, RuntimeError):
    """MLflow's trash cannot be emptied."""


def abandoned(uri: str, runs: Path, older_than: float, now: float | None = None) -> list[MlflowRun]:
    """The entries of runs, evaluations and ablations that are no longer in a directory.

    older_than: days since they were last written. An entry is kept if a run still names it or its parent, or if it is
    the parent of an entry that is kept. Raises StoreError.
    """
    client = MlflowClient(tracking_uri=uri)
    entries = _entries(client)
    named = {store.read_run().get("mlflow_run_id") for store in runs_in(runs)}
    gone = [entry for entry in entries if _is_gone(entry, runs) and not {entry.info.run_id, _parent(entry)} & named]
    ids = {entry.info.run_id for entry in gone}
    above = {_parent(entry) for entry in entries if entry.info.run_id not in ids}
    before = 1000 * ((time.time() if now is None else now) - older_than * DAY)
    return [entry for entry in gone if entry.info.run_id not in above and _written(client, entry) < before]


def trash(uri: str, entries: list[MlflowRun]) -> None:
    """Move entries to MLflow's trash."""
    client = MlflowClient(tracking_uri=uri)
    for entry in entries:
        client.delete_run(entry.info.run_id)


def purge(uri: str, page: str | None) -> int:
    """Delete the entries that have been in the trash for TRASH_DAYS, with their files; returns how many.

    page: address of MLflow's server, if there is one: entries created through it keep their files there. Raises
    EntriesError.
    """
    try:
        if _trash_is_empty(uri):
            return 0  # `mlflow gc` needs seconds to find nothing
    except AWAY as error:
        raise EntriesError(f"MLflow's database cannot be read: {reason(error)}") from error
    command = [sys.executable, "-m", "mlflow", "gc", "--older-than", f"{TRASH_DAYS}d", "--backend-store-uri", uri,
               "--tracking-uri", page or uri]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        errors = re.findall(r"^[\w.]+(?:Error|Exception)\b.*", ended.stderr, re.M) or ended.stderr.splitlines()
        raise EntriesError(f"mlflow gc failed (exit code {ended.returncode}): {''.join(errors[-1:])}")
    return ended.stdout.count("Run with ID")


def _trash_is_empty(uri: str) -> bool:
    """Whether the trash is empty; MLflow's client does not tell when an entry was deleted."""
    client = MlflowClient(tracking_uri=uri)
    experiments = _all(lambda token: client.search_experiments(ViewType.ALL, page_token=token))
    if any(each.lifecycle_stage == LifecycleStage.DELETED for each in experiments):
        return False
    ids = [each.experiment_id for each in experiments]
    return not client.search_runs(ids, run_view_type=ViewType.DELETED_ONLY, max_results=1)


def _entries(client: MlflowClient) -> list[MlflowRun]:
    """Every entry that is not in the trash."""
    experiments = [each.experiment_id for each in _all(lambda token: client.search_experiments(page_token=token))]
    return _all(lambda token: client.search_runs(experiments, page_token=token)) if experiments else []


def _all(search: Callable[[str | None], Any]) -> list[Any]:
    found, token = [], None
    while True:
        page = search(token)
        found += page
        if not (token := page.token):
            return found


def _parent(entry: MlflowRun) -> str | None:
    parent: str | None = entry.data.tags.get(MLFLOW_PARENT_RUN_ID)
    return parent


def _is_gone(entry: MlflowRun, runs: Path) -> bool:
    """Whether an entry's run was in this directory and is no longer here or at the directory's URL."""
    directory = Path(entry.data.tags.get("ares.directory", ""))
    return directory.is_relative_to(runs.absolute()) and not RunStore(directory).children("")


def _written(client: MlflowClient, entry: MlflowRun) -> int:
    """When an entry was last written (ms); a killed run never set its end time."""
    rows = [row for name in list(entry.data.metrics)[:1] for row in client.get_metric_history(entry.info.run_id, name)]
    return max(entry.info.start_time, entry.info.end_time or 0, *(row.timestamp for row in rows))
