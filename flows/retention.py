"""What `ares gc` and the flow `ares-gc` do: delete whole runs, working files and MLflow's entries, by a policy.

Covered: all runs of a directory, or named ones; runs in training are left alone. Not covered: the policy and which runs
it deletes (ares/runs/retention.py), what no kept run needs (ares/runs/lineage.py), which entries go
(ares/reports/entries.py). Prefect's server cleans its own database (flows/environment.py).
"""

import logging
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ares.config import ConfigError
from ares.reports import mlflow_page
from ares.runs import TRASH_DAYS, Policy, known_run, prune, to_delete
from ares.store import RunHeld, RunStore, StoreError, database_of, run_store, runs_directory, runs_in, tracking_uri

logger = logging.getLogger(__name__)
Say = Callable[[str], None]


def policy(
    older_than: float | None, max_size: float | None, keep_best: int, entries: float | None, working_files: bool
) -> Policy:
    """The policy of `ares gc`'s options (max_size: GB). Raises ConfigError: a negative one would delete every run."""
    options = {"--older-than": older_than, "--max-size": max_size, "--keep-best": keep_best, "--entries": entries}
    for option, amount in options.items():
        if amount is not None and not 0 <= amount < math.inf:
            raise ConfigError(f"{option} must be 0 or more (got {amount:g})")
    return Policy(older_than, None if max_size is None else int(max_size * 1e9), keep_best, entries, working_files)


def collect(policy: Policy, names: list[str] | None = None, dry_run: bool = False, say: Say = logger.info) -> int:
    """Apply a policy to all runs and MLflow, or only to named runs; returns the bytes freed.

    Runs in training and damaged ones are left alone. Raises ConfigError, EntriesError, and StoreError if such a run is
    named.
    """
    by_age_or_size = policy.older_than is not None or policy.max_bytes is not None
    if policy.keep_best and not by_age_or_size:
        raise ConfigError("--keep-best says what stays; --older-than or --max-size say what goes")
    stores = [run_store(name) for name in names] if names else runs_in(runs_directory())
    stores = [store for store in stores if _is_readable(store, names, say)]
    total, deleted = 0, set()
    for run, freed, why in to_delete([known_run(store) for store in stores], policy) if by_age_or_size else []:
        try:
            if not dry_run:
                run.store.delete()
        except RunHeld as error:  # meanwhile, or by another machine
            _leave(error, names, say)
            continue
        deleted.add(run.store.name)
        total += freed
        say(f"{run.store.name}: the run, {freed:,d} bytes ({why})")
    if policy.working_files:
        total += _prune([store for store in stores if store.name not in deleted], names, dry_run, say)
    if not names:
        _clean_mlflow(policy, runs_directory(), dry_run, say)
    return total


def _is_readable(store: RunStore, names: list[str] | None, say: Say) -> bool:
    try:
        store.read_run()
    except StoreError as error:  # damaged: what it needs is unknown
        _leave(error, names, say)
        return False
    return True


def _leave(error: StoreError, names: list[str] | None, say: Say) -> None:
    if names:
        raise error
    say(f"left alone: {error}")


def _prune(stores: list[RunStore], names: list[str] | None, dry_run: bool, say: Say) -> int:
    total = 0
    unlinked: Counter[int] = Counter()
    for store in stores:
        try:
            pruned = prune(store, dry_run, unlinked if dry_run else None)
        except RunHeld as error:
            _leave(error, names, say)
            continue
        freed = sum(one.bytes for one in pruned)
        total += freed
        if dry_run:
            _list(store, {one.path: one.bytes for one in pruned}, say)
        say(f"{store.name}: {len(pruned)} files and folders, {freed:,d} bytes")
    return total


def _list(store: RunStore, pruned: dict[Path, int], say: Say) -> None:
    """A line a kind of file: those whose paths differ in numbers only, as `steps/#/rollout-#.parquet`."""
    kinds: dict[str, list[int]] = {}
    for path, freed in pruned.items():
        kinds.setdefault(re.sub(r"\d+", "#", str(path.relative_to(store.directory))), []).append(freed)
    for kind, sizes in sorted(kinds.items()):
        say(f"{sum(sizes):14,d}  {len(sizes):6,d} × {kind}")


def _clean_mlflow(policy: Policy, runs: Path, dry_run: bool, say: Say) -> None:
    uri = tracking_uri(None, runs)
    database = database_of(uri)
    if database is None:
        say(f"MLflow's database is elsewhere, and is cleaned there: mlflow gc --older-than {TRASH_DAYS}d")
        return
    if not database.exists():
        return
    from ares.reports import abandoned, purge, trash  # these need MLflow

    if policy.entries_older_than is not None:
        entries = abandoned(uri, runs, policy.entries_older_than)
        for entry in entries:
            say(f"{entry.info.run_name}: MLflow's entry {entry.info.run_id}, to its trash")
        if not dry_run:
            trash(uri, entries)
    if dry_run:  # `mlflow gc` has none
        say(f"MLflow: and what was deleted there {TRASH_DAYS} days ago")
    elif count := purge(uri, mlflow_page(uri, runs)):
        say(f"MLflow: {count} entries that were deleted there {TRASH_DAYS} days ago")
