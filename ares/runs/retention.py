"""What may be deleted, and which runs that gives up: by age, by size, and the best ones whatever their age.

Covered: the policy, choosing whole runs. Not covered: what a kept run no longer needs (ares/runs/lineage.py, `prune`),
MLflow's entries (ares/reports/entries.py), Prefect's database (flows/environment.py says how long it keeps what).
"""

import time
from collections import Counter
from dataclasses import dataclass

from ares.store import Commit, RunStore

DAY = 24 * 3600.0
TRASH_DAYS = 30
"""What was deleted in MLflow stays in its trash so long, from where its page restores it."""


@dataclass(frozen=True)
class Policy:
    """What may go; as it stands, nothing of a run.

    Of runs that are deleted the oldest go first; a run is as old as its last commit.
    """

    older_than: float | None = None
    """Days."""
    max_bytes: int | None = None
    """What all runs may take together."""
    keep_best: int = 0
    """Runs with the highest held-out accuracies, which stay."""
    entries_older_than: float | None = None
    """Days since MLflow's entry of a run was last written, where the run is gone."""
    working_files: bool = False
    """What no run needs to resume; no fork starts before the oldest kept checkpoint then."""


@dataclass(frozen=True)
class KnownRun:
    """What a policy asks of a run."""

    store: RunStore
    sizes: dict[int | str, int]
    """Bytes of its files. Forks share some, by which they are counted once."""
    finished: float
    """Seconds since the epoch."""
    accuracy: float | None
    """The best on held-out problems; None where it was never measured."""
    is_held: bool


def known_run(store: RunStore) -> KnownRun:
    """Read what a policy asks of a run. Raises StoreError when there is none."""
    store.read_run()
    commit = store.last_commit()
    made = (store.directory / "run.json").stat().st_mtime
    finished = made if commit is None else commit.timestamp / 1000
    return KnownRun(store, store.sizes(), finished, _best(commit), store.is_held())


def _best(commit: Commit | None) -> float | None:
    evaluations = commit.state.get("evaluations", []) if commit is not None else []
    return max((float(evaluation["accuracy"]) for evaluation in evaluations), default=None)


def to_delete(runs: list[KnownRun], policy: Policy, now: float | None = None) -> list[tuple[KnownRun, int, str]]:
    """The runs that a policy gives up, the bytes that this frees, and why; never one that is being trained, nor one of
    the best."""
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
