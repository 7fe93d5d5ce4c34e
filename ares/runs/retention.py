"""Which whole runs to delete: by age and total size, sparing the best.

Covered: the policy, choosing whole runs. Not covered: what a kept run no longer needs (ares/runs/lineage.py, `prune`),
MLflow's entries (ares/reports/entries.py), Prefect's database (flows/environment.py says how long it keeps what).
"""

import time
from collections import Counter
from dataclasses import dataclass

from ares.store import Commit, RunStore

DAY = 24 * 3600.0
TRASH_DAYS = 30
"""Days that deleted entries stay in MLflow's trash, from where its UI restores them."""


@dataclass(frozen=True)
class Policy:
    """What to delete; by default nothing of any run.

    The oldest runs go first; a run is as old as its last commit.
    """

    older_than: float | None = None
    """Days."""
    max_bytes: int | None = None
    """Limit on all runs together."""
    keep_best: int = 0
    """How many runs with the highest held-out accuracies stay."""
    entries_older_than: float | None = None
    """MLflow entries of deleted runs go after so many days without a change."""
    working_files: bool = False
    """Delete what no run needs to resume. Afterwards no fork starts before the oldest kept checkpoint."""


@dataclass(frozen=True)
class KnownRun:
    """What a policy depends on."""

    store: RunStore
    sizes: dict[int | str, int]
    """Bytes of each file. Files that forks share count once."""
    finished: float
    """Seconds since the epoch."""
    accuracy: float | None
    """The best on held-out problems; None if never measured."""
    is_held: bool


def known_run(store: RunStore) -> KnownRun:
    """Read what a policy depends on. Raises StoreError if there is no such run."""
    store.read_run()
    commit = store.last_commit()
    made = (store.directory / "run.json").stat().st_mtime
    finished = made if commit is None else commit.timestamp / 1000
    return KnownRun(store, store.sizes(), finished, _best(commit), store.is_held())


def _best(commit: Commit | None) -> float | None:
    evaluations = commit.state.get("evaluations", []) if commit is not None else []
    return max((float(evaluation["accuracy"]) for evaluation in evaluations), default=None)


def to_delete(runs: list[KnownRun], policy: Policy, now: float | None = None) -> list[tuple[KnownRun, int, str]]:
    """The runs that a policy deletes, the bytes that each frees, and why; never one in training or one of the best."""
    now = time.time() if now is None else now
    measured = sorted((run for run in runs if run.accuracy is not None), key=lambda run: run.accuracy or 0.0)
    best = {run.store.name for run in measured[len(measured) - min(policy.keep_best, len(measured)) :]}
    holders = Counter(file for run in runs for file in run.sizes)
    left = sum({file: size for run in runs for file, size in run.sizes.items()}.values())
    given_up = []
    for run in sorted(runs, key=lambda run: run.finished):
        if run.is_held or run.store.name in best:
            continue
        age = (now - run.finished) / DAY
        if policy.older_than is not None and age > policy.older_than:
            why = f"{age:.0f} days old"
        elif policy.max_bytes is not None and left > policy.max_bytes:
            why = f"all runs take {left:,d} bytes"
        else:
            continue
        freed = sum(size for file, size in run.sizes.items() if holders[file] == 1)
        holders.subtract(run.sizes.keys())
        left -= freed
        given_up.append((run, freed, why))
    return given_up
