"""The MLflow run that is the parent of an ablation's children; its id is kept in the ablation's folder.

Covered: opening it, its state, its report; what was fixed before the first child started. Children create their own
entries (ares/reports/mlflow.py) and name this one as parent, so an unreachable MLflow is an error here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from ares.ablations.definition import AREA, Ablation
from ares.ablations.rows import FILE, read_file, read_rows
from ares.config import Config, ConfigError, Override
from ares.errors import UserError
from ares.printable import without_credentials
from ares.reports import AWAY, Tracking, find_or_create, reason
from ares.store import RunStore, mlflow_page, tracking_uri


def check_fixed(ablation: Ablation, folder: Path) -> None:
    """Raise ConfigError if what a started ablation is judged by has changed.

    A metric that no child has logged may be corrected: nobody has seen a value of it. Children may be added, and those
    that have begun stay: without a variant that was seen, the others need smaller differences for a claim.
    """
    stored = read_file(folder)
    if not stored:
        return
    before = Ablation.model_validate(stored["definition"])
    fixed = before.fixed
    changed = {name: (fixed[name], now) for name, now in ablation.fixed.items() if now != fixed[name]}
    if changed:
        logged = read_rows(folder.name, folder.parent).logged
        changed = {name: of for name, of in changed.items() if not _corrects(name, *of, logged)}
    told = [f"{name}: {old!r} → {now!r}" for name, (old, now) in changed.items()]
    for variant, seed in product(before.variants, before.seeds):
        child = before.name_child(variant, seed)
        left_out = variant not in ablation.variants or seed not in ablation.seeds
        if left_out and (folder.parent / child).exists():
            told.append(f"{child} has begun, and is left out")
    if told:
        raise ConfigError(
            f"Ablation {ablation.name!r} was started, and by what it is judged was decided then:\n  "
            + "\n  ".join(told)
            + "\nTake what was decided, or give the ablation another name with --name."
        )


def _corrects(name: str, before: Any, now: Any, logged: set[str]) -> bool:
    """Whether a change of a field replaces only metrics that no child has logged."""
    if name == "primary":
        return before.removeprefix(AREA) not in logged
    if name == "interaction":
        return not set(before or ()) <= logged
    if name == "no_worse":
        seen = {metric: margin for metric, margin in before.items() if metric in logged}
        return len(now) <= len(before) and seen.items() <= now.items()
    return False


@contextmanager
def _naming_mlflow(uri: str) -> Iterator[None]:
    """Turn what MLflow raises when it is away into a UserError that names its address."""
    try:
        yield
    except AWAY as error:
        raise UserError(f"MLflow at {without_credentials(uri)}: {reason(error)}") from error


class ParentRun:
    """An ablation's own MLflow run."""

    def __init__(self, ablation: Ablation, config: Config, folder: Path, extra: list[Override]) -> None:
        """Find or create it; `folder` is the ablation's, `config` that of any child. Raises UserError."""
        self.uri = tracking_uri(config.tracking.uri, folder.parent)
        tags = {"ares.ablation": ablation.name, "ares.directory": str(folder.absolute())}
        with _naming_mlflow(self.uri):
            known = read_file(folder).get("mlflow_run_id")
            self._entry, experiment = find_or_create(self.uri, config, RunStore(folder), known, tags)
        self.id = self._entry.run_id
        started = {
            "mlflow_uri": without_credentials(self.uri),
            "mlflow_experiment_id": experiment,
            "mlflow_run_id": self.id,
            # As text, since the store sorts keys: the first variant may be the baseline.
            "definition": ablation.model_dump_json(),
            "command_line": " ".join(extra),
            # `ares gc` reads these.
            "children": [ablation.name_child(*child) for child in product(ablation.variants, ablation.seeds)],
        }
        RunStore(folder).write_json(FILE, started)  # before the first child starts
        page = mlflow_page(self.uri, folder.parent)
        self.page = None if page is None else f"{page}/#/experiments/{experiment}/runs/{self.id}"
        """Address of the ablation's run in MLflow's UI, if there is one."""

    def close(self, status: str, files: list[Path]) -> None:
        """Set the state (FINISHED, FAILED or KILLED) and log the report's files. Raises UserError."""
        with _naming_mlflow(self.uri):
            for file in files:
                self._entry.client.log_artifact(self.id, str(file))
            self._entry.client.set_terminated(self.id, status)


def complete_entry(config: Config, store: RunStore, finished: bool) -> None:
    """Log what MLflow is missing of a child: MLflow was away or locked, or the child was killed before it could log.

    Does nothing if the child is tracked elsewhere.
    """
    if "mlflow" not in config.tracking.kinds:
        return
    tracking = Tracking(config.tracking, config, store)
    (tracking.finish if finished else tracking.catch_up)()
