"""What `ares gc` and the flow `ares-gc` delete, by a policy: whole runs, and files that no run needs.

Covered: runs by age and total size, sparing the best; leftovers and working files of runs that stay. Runs in training
are left alone. Not covered: MLflow's entries (`mlflow gc`), Prefect's database (flows/environment.py says how long it
keeps what).
"""

import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ares.config import ConfigError
from ares.store import MEMO_FILE, RunStore, StoreError, is_held, runs_directory, runs_in

logger = logging.getLogger(__name__)
DAY = 24 * 3600.0


@dataclass(frozen=True)
class Policy:
    """What to delete; by default nothing. The oldest runs go first; a run is as old as its last commit."""

    older_than: float | None = None
    """Days."""
    max_size: float | None = None
    """Limit on all runs together, in GB."""
    keep_best: int = 0
    """How many runs with the highest held-out accuracies stay."""
    working_files: bool = False
    """Delete what no run needs to resume. Afterwards no fork starts before the oldest kept checkpoint."""

    def __post_init__(self) -> None:
        for name in ("older_than", "max_size", "keep_best"):
            amount = getattr(self, name)
            if amount is not None and not 0 <= amount < math.inf:  # a negative one would delete every run
                raise ConfigError(f"--{name.replace('_', '-')} must be 0 or more (got {amount:g})")


def collect(policy: Policy, dry_run: bool = False, say: Callable[[str], None] = logger.info) -> int:
    """Apply a policy to all runs, but those in training and damaged ones; returns the bytes freed."""

    @contextmanager
    def left_alone() -> Iterator[None]:
        """Say so of a run that cannot be used."""
        try:
            yield
        except StoreError as error:
            say(f"left alone: {error}")

    total, stay = 0, []
    forks = sorted(runs_directory().glob(".*.partial")) if policy.working_files else []
    for killed in (RunStore(folder) for folder in forks if not is_held(folder)):
        freed = _bytes(killed, killed.directory)
        with left_alone():
            if not dry_run:
                killed.delete()
            total += freed
            say(f"{killed.name}: of a fork that was killed, {freed:,d} bytes")
    for store in runs_in(runs_directory()):
        with left_alone():
            store.read_run()
            stay.append(store)
    for store, freed, why in expired(stay, policy):
        with left_alone():
            if not dry_run:
                store.delete()
            stay.remove(store)
            total += freed
            say(f"{store.name}: the run, {freed:,d} bytes ({why})")
    for store in stay if policy.working_files else ():
        with left_alone():
            pruned = prune(store, dry_run)
            if dry_run:
                _list(store, pruned, say)
            total += sum(pruned.values())
            say(f"{store.name}: {len(pruned)} files and folders, {sum(pruned.values()):,d} bytes")
    return total


def expired(stores: list[RunStore], policy: Policy) -> list[tuple[RunStore, int, str]]:
    """The runs that a policy deletes, the bytes that each frees, and why.

    Never one of the best, nor one that is in training, evaluated, forked, or part of an ablation that is under way.
    """
    if policy.older_than is None and policy.max_size is None:
        return []
    finished, accuracies = {}, {}
    for store in stores:
        commit = store.last_commit()
        made = (store.directory / "run.json").stat().st_mtime
        finished[store] = made if commit is None else commit.timestamp / 1000
        if commit is not None and commit.state.get("evaluations"):
            accuracies[store] = max(float(evaluation["accuracy"]) for evaluation in commit.state["evaluations"])
    sizes = {store: _bytes(store, store.directory) for store in stores}
    best = sorted(accuracies, key=lambda store: accuracies[store], reverse=True)[: policy.keep_best]
    children = {name for folder in {store.directory.parent for store in stores} for name in _awaited(folder)}
    left, given_up = sum(sizes.values()), []
    for store in sorted(stores, key=lambda store: finished[store]):
        age = (time.time() - finished[store]) / DAY
        if store in best or store.name in children or store.is_held() or _in_use(store):
            continue
        if policy.older_than is not None and age > policy.older_than:
            why = f"{age:.0f} days old"
        elif policy.max_size is not None and left > policy.max_size * 1e9:
            why = f"all runs take {left:,d} bytes"
        else:
            continue
        left -= sizes[store]
        given_up.append((store, sizes[store], why))
    return given_up


def prune(store: RunStore, dry_run: bool) -> dict[Path, int]:
    """Delete what neither resuming a run nor forking it from its oldest kept checkpoint on can need.

    That is: leftovers of interrupted writes, and of the steps before the oldest intact checkpoint everything but the
    commits and the tables that people read (samples, evaluation). Files that a fork shares stay with the fork. Returns
    what was (or would be) deleted, and the bytes that frees. Raises StoreError if the run is being trained.
    """
    with store.lock():
        pruned = {path: _bytes(store, path) for path in sorted(_prunable(store))}
        # Results first: of a gc that is killed, none names a file that is gone, which is damage to `ares verify`.
        for path in () if dry_run else sorted(pruned, key=lambda path: path.name != MEMO_FILE):
            store.remove(path)
    return pruned


def _awaited(runs: Path) -> set[str]:
    """Names of the runs that an ablation under way has trained or will (ares/ablations): its report reads them all."""
    started = [file for file in runs.glob("*/ablation.json") if is_held(file.parent)]
    return {name for file in started for name in json.loads(file.read_bytes()).get("children", [])}


def _in_use(store: RunStore) -> list[Path]:
    """Folders in the run of its evaluations and forks that are under way."""
    forks = {path for path in store.children("") if path.match(".fork-*")}
    return [folder for folder in store.children("evals") | forks if is_held(folder)]


def _prunable(store: RunStore) -> set[Path]:
    used = _in_use(store)
    leftovers = {path for path in store.children("") if path.match(".fork-*") or path.match(".*.partial")}
    leftovers |= set(store.directory.rglob(".*.partial"))
    leftovers = {path for path in leftovers if not any(path.is_relative_to(folder) for folder in used)}
    kept = [step for step in store.committed_steps() if _has_checkpoint(store, step)]
    is_enough = kept and kept[0] <= _oldest_needed(store)
    for step in range(1, kept[0] if is_enough else 0):
        commit = store.read_commit(step)
        named = {commit.artifacts[name].path for name in ("samples", "evaluation") if name in commit.artifacts}
        folder = store.step_path(step)
        stay = {store.directory / path for path in (*named, f"{folder}/COMMIT.json")}
        leftovers |= store.children(folder) - stay
    return leftovers


def _oldest_needed(store: RunStore) -> int:
    """The oldest policy that a planned step samples from (rollout.max_staleness)."""
    last = store.last_commit()
    assert last is not None
    return last.step - max(len(last.state.get("planned", [])) - 1, 0)


def _has_checkpoint(store: RunStore, step: int) -> bool:
    checkpoint = store.read_commit(step).artifacts.get("checkpoint")
    return checkpoint is not None and store.intact([checkpoint])


def _bytes(store: RunStore, path: Path) -> int:
    """Bytes of a file or folder, at the URL if there is one; of a file that runs share each has its part."""
    if store.mirror is not None:
        return sum(store.mirror.sizes(store.name_of(path)).values())
    if path.is_symlink():
        return 0
    size, inside = 0, (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    for file in inside if path.is_dir() else [path]:
        with suppress(FileNotFoundError):  # of a run in training
            status = file.stat()
            size += status.st_size // status.st_nlink
    return size


def _list(store: RunStore, pruned: dict[Path, int], say: Callable[[str], None]) -> None:
    """A line a kind of file: those whose paths differ in numbers only, as `steps/#/rollout-#.parquet`."""
    kinds: dict[str, list[int]] = {}
    for path, freed in pruned.items():
        kinds.setdefault(re.sub(r"\d+", "#", str(path.relative_to(store.directory))), []).append(freed)
    for kind, sizes in sorted(kinds.items()):
        say(f"{sum(sizes):14,d}  {len(sizes):6,d} × {kind}")
