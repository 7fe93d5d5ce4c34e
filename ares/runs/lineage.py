"""Runs that share their past by hard links: forks, shared bootstraps; and which files of a run can be deleted.

Covered: `fork` (a new run with every artifact of another one up to a step, or to a phase of it), `share_bootstrap` (a
run takes over a bootstrap that it would draw alike), `prune` (delete what neither a resume nor a fork from the oldest
kept checkpoint on can need). Not covered: training the fork (it is a run like any other), comparing runs
(ares/runs/difference.py).

A fork at step K after phase P starts from the commit of step K − 1 and takes over the kept results of step K's phases
up to P: they keep the identity they had, so its step K finds them. Without P it starts from the commit of step K.
"""

import asyncio
import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ares.config import Config, ConfigError, differences, override
from ares.runs.digests import changed_files, check_model
from ares.runs.phase_settings import PHASES, check_fork
from ares.runs.run import Run, description_of, identity_of, read_config
from ares.runs.step import DRAWN, phase_identity
from ares.step import RunState
from ares.store import Fork, Kept, Ref, RunStore, StoreError, run_store
from ares.workers import PlainWorkers, check_weights


def fork(source: str, at: int, phase: str | None, overrides: list[str], name: str, runs: Path) -> list[str]:
    """Create run `name` from `source`; returns the settings in which they differ, as `field: before → after`.

    at: the last step that is shared, or with `phase` the step of which the phases up to this one are shared.
    Raises ConfigError or StoreError, and then leaves nothing behind.
    """
    parent, target = run_store(source, runs), run_store(name, runs)
    before = read_config(parent)
    config = override(before, overrides)
    version = _forked_version(parent, before, config, at, phase, target.directory)
    run, digests = Run.check(config, name, runs)
    try:
        _check_past(parent, before, run, digests, version, at, phase)
        _write_fork(parent, before, run, digests, version, at, phase)
    finally:
        run.close()
    return differences(before, config)


def share_bootstrap(source: str, target: str, runs: Path) -> None:
    """Give a run that is about to start the responses, grades and log-probs of another one's bootstrap.

    Both must have the same `drawn_identity`: then the new run finds kept results, and is bit-identical to one that drew
    them itself. Raises StoreError.
    """
    donor, taker = run_store(source, runs), run_store(target, runs)
    for kept in donor.memo(0).of_phases(DRAWN):
        for path in _files_of(donor, kept):
            _link(donor.directory / path, taker.directory / path)
        taker.memo(0).keep(kept)


def _forked_version(parent: RunStore, before: Config, config: Config, at: int, phase: str | None, target: Path) -> int:
    """The last step whose commit is shared. Raises ConfigError or StoreError if there can be no fork."""
    if phase is not None and phase not in PHASES:
        raise ConfigError(f"--phase {phase}: a fork can share the phases {', '.join(PHASES)}")
    if target.exists() or RunStore(target).exists():
        raise StoreError(f"There is a run {target.name!r} already; give the fork another name with --run")
    if before.rollout.max_staleness or config.rollout.max_staleness:
        raise ConfigError("A run with rollout.max_staleness samples from older weights, which a fork does not have")
    version = at if phase is None else at - 1
    if not 0 <= version < len(parent.committed_steps()):
        raise StoreError(
            f"Run {parent.name!r} has not got there: its last commit is {len(parent.committed_steps()) - 1}"
        )
    if phase and not parent.memo(at).of_phases(PHASES):
        raise StoreError(
            f"Run {parent.name!r} keeps no results of the phases of step {at}: it has not begun it here, was forked "
            f"after it, or `ares gc` has deleted them. Share less: --at {at - 1} without --phase"
        )
    return version


def _check_past(
    parent: RunStore, before: Config, run: Run, digests: dict[str, Any], version: int, at: int, phase: str | None
) -> None:
    """Raise ConfigError or StoreError if what is shared does not fit the fork's data, model or settings."""
    check_model(parent, run.config)
    known = parent.read_run()["digests"]
    if digests["train"] != known["train"]:
        raise ConfigError("A fork keeps the train set of its run: data.train, and what it holds, cannot change")
    try:
        RunState.restored(run.config, len(run.train_set), parent.read_commit(version).state)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"The controllers of {parent.name!r} after step {version} do not fit the new settings ({error}): "
            "another kind of controller starts with a run of its own"
        ) from error
    check_fork(before, run.config, changed_files(run.config, known, digests), at, phase)


def _write_fork(
    parent: RunStore, before: Config, run: Run, digests: dict[str, Any], version: int, at: int, phase: str | None
) -> None:
    """Link what is shared into the new run's directory, completely or not at all."""
    shared = PHASES[: PHASES.index(phase) + 1] if phase else ()
    own, forked = identity_of(before, parent.read_run()["digests"]), parent.fork()
    directory = run.store.directory
    # Deleted as a whole if anything fails.
    target = RunStore(directory.with_name(f".{directory.name}.{os.getpid()}.partial"))
    try:
        for path in _shared_paths(parent, version, at, shared):
            _link(parent.directory / path, target.directory / path)
        if parent.format() == 1:
            target.seal()
        for kept in _shared_results(parent, at, shared):
            target.memo(at).keep(kept)
        described = Fork(
            run=parent.name,
            at=at,
            phase=phase,
            version=version,
            commit=parent.read_commit(version).digest(),
            identities={each: phase_identity(own, forked, at, each) for each in shared},
            checkpoint=_checkpoint(parent, before, target, version),
        )
        target.write_run(
            description_of(run.config, run.store.name, digests) | {"fork": described.model_dump(mode="json")}
        )
        os.rename(target.directory, directory)
        try:
            RunStore(directory).publish()
        except StoreError:
            shutil.rmtree(directory)
            raise
    finally:
        shutil.rmtree(target.directory, ignore_errors=True)


def _shared_results(parent: RunStore, forked: int, phases: tuple[str, ...]) -> list[Kept]:
    """Kept results of the forked step up to the phase. The evaluation after its update is not shared."""
    kept = parent.memo(forked).of_phases(phases)
    return [each for each in kept if not any("-validation-" in ref.path for ref in each.refs())]


def _shared_paths(parent: RunStore, version: int, forked: int, phases: tuple[str, ...]) -> Iterator[str]:
    """Files of the finished steps, and those that the shared results of the forked step name."""
    for step in range(version + 1):
        folder = parent.here(parent.step_path(step))
        yield from (str(file.relative_to(parent.directory)) for file in folder.rglob("*") if file.is_file())
        checkpoint = parent.read_commit(step).artifacts.get("checkpoint")
        if checkpoint is not None:
            parts = parent.here(checkpoint.path).rglob("*")
            yield from (str(file.relative_to(parent.directory)) for file in parts if file.is_file())
    for kept in _shared_results(parent, forked, phases):
        yield from _files_of(parent, kept)


def _files_of(store: RunStore, kept: Kept) -> Iterator[str]:
    """The files that a kept result names, and that are there."""
    for ref in kept.refs():
        whole = store.here(ref.path)
        files = [file for file in whole.rglob("*") if file.is_file()] if whole.is_dir() else [whole]
        yield from (str(file.relative_to(store.directory)) for file in files if file.exists())


def _checkpoint(parent: RunStore, config: Config, target: RunStore, version: int) -> Ref | None:
    """The weights a fork starts from: the run's own checkpoint, else one made by replaying with the run's settings.

    The fork itself must not replay batches of its past: with its settings they would give other weights.
    """
    if version == 0:
        return None
    own = parent.read_commit(version).artifacts.get("checkpoint")
    if own is not None and target.intact([own]):
        return own
    check_weights(parent, version)
    workers = PlainWorkers(config, parent)

    async def save() -> Ref:
        made = await workers.save(version, f".fork-{target.name.strip('.')}/checkpoint")
        (target.directory / "checkpoints").mkdir(parents=True, exist_ok=True)
        os.rename(parent.path(made), target.directory / f"checkpoints/{version:06d}")
        parent.remove((parent.directory / made.path).parent)
        return made.model_copy(update={"path": f"checkpoints/{version:06d}"})

    try:
        return asyncio.run(save())
    finally:
        workers.close()


@dataclass(frozen=True)
class Deletion:
    """What was (or would be) deleted."""

    path: Path
    bytes: int


def prune(store: RunStore, dry_run: bool, unlinked: Counter[int] | None = None) -> list[Deletion]:
    """Delete what neither resuming a run nor forking it from its oldest kept checkpoint on can need.

    That is: leftovers of interrupted writes, and of the steps before the oldest intact checkpoint everything but the
    commits and the tables that people read (samples, evaluation). Files that a fork shares stay with the fork.
    unlinked: links of each file (by inode) that earlier dry runs would have deleted; updated.
    Raises RunHeld if the run is being trained.
    """
    with store.lock():
        prunable = sorted(_prunable(store))
        counted: Counter[int] = Counter() if unlinked is None else unlinked
        pruned = [Deletion(path, _freed_bytes(store, path, counted)) for path in prunable]
        for path in [] if dry_run else prunable:
            store.remove(path)
    return pruned


def _prunable(store: RunStore) -> set[Path]:
    leftovers = set(store.directory.rglob(".*.partial"))
    leftovers |= {path for path in store.children("") if path.match(".fork-*") or path.match(".*.partial")}
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


def _freed_bytes(store: RunStore, path: Path, unlinked: Counter[int]) -> int:
    """Bytes that a deletion frees, at the URL if there is one; a file stays until its last link is deleted."""
    if store.mirror is not None:
        return sum(store.mirror.sizes(path.relative_to(store.directory).as_posix()).values())
    freed = 0
    for file in path.rglob("*") if path.is_dir() else [path]:
        status = file.stat()
        if stat.S_ISREG(status.st_mode):
            unlinked[status.st_ino] += 1
            freed += status.st_size * (unlinked[status.st_ino] == status.st_nlink)
    return freed


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError as error:
        raise StoreError(f"{target}: cannot be linked to {source}: {error.strerror}; runs share one disk") from error
