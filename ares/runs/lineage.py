"""Runs that share their past by hard links: forks, shared bootstraps.

Covered: `fork` (a new run with every artifact of another one up to a step, or to a phase of it), `share_bootstrap` (a
run takes over a bootstrap that it would draw alike). Not covered: training the fork (it is a run like any other),
comparing runs (ares/runs/verification.py), which files may be deleted (ares/runs/retention.py).

A fork at step K after phase P starts from the commit of step K − 1 and takes over the kept results of step K's phases
up to P, under keys of its own, so its step K finds them. Without P it starts from the commit of step K.

    ares fork first --at 3 --phase score --run second

    second/bootstrap/, steps/000001/, steps/000002/    the files of `first`, by hard links
    second/steps/000003/phases.jsonl                   the lines of its phases rollout and score
    second/steps/000003/rollout-…, score-…             the files that they name, by hard links
    second/checkpoints/000002/                         its own, or made by a replay with its settings
"""

import asyncio
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ares.config import Config, ConfigError, differences, override
from ares.runs.description import changed_files, check_model, description_of
from ares.runs.phase_settings import PHASES, check_fork
from ares.runs.run import Run
from ares.runs.sets import first_files
from ares.runs.step import DRAWN, owned_key
from ares.step import RunState
from ares.store import MEMO_FILE, Fork, Kept, Ref, RunStore, StoreError, files_in, held, read_config, run_store
from ares.workers import PlainWorkers, Workers, check_weights


@dataclass(frozen=True)
class _Place:
    """Where a fork leaves its parent."""

    parent: RunStore
    before: Config
    """The parent's configuration."""
    at: int
    phase: str | None

    @property
    def version(self) -> int:
        """The last step whose commit is shared."""
        return self.at if self.phase is None else self.at - 1

    def results(self) -> list[Kept]:
        """Kept results of the phases of step `at` that are shared. The evaluation after its update is not shared."""
        phases = ("turn", *PHASES[: PHASES.index(self.phase) + 1]) if self.phase else ()
        kept = self.parent.memo(self.at).of_phases(phases)
        return [each for each in kept if not any("-validation-" in ref.path for ref in each.refs())]


def fork(
    source: str, at: int, phase: str | None, overrides: list[str], name: str, runs: Path, why: str = ""
) -> list[str]:
    """Create run `name` from `source`; returns the settings in which they differ, as `field: before → after`.

    at: the last step that is shared, or with `phase` the step of which the phases up to this one are shared.
    why: what made a run fork itself. Raises ConfigError or StoreError, and then leaves nothing behind.
    """
    parent, target = run_store(source, runs), run_store(name, runs)
    place = _Place(parent, read_config(parent), at, phase)
    config = override(place.before, overrides)
    is_leftover = target.is_half_published()
    if not is_leftover and (target.directory.exists() or target.exists()):
        raise StoreError(f"There is a run {name!r} already; give the fork another name with --run")
    _check_place(place, config)
    if is_leftover:  # of a fork that was killed
        target.delete()
    run, digests = Run.check(config, name, runs, files=first_files(parent))
    try:
        _check_past(place, run, digests)
        _write_fork(place, run, digests, why)
    finally:
        run.close()
    return differences(place.before, config)


def share_bootstrap(source: str, target: str, runs: Path) -> None:
    """Give a run that is about to start the responses, grades and log-probs of another one's bootstrap.

    Both must have the same `drawn_identity`: then the new run finds kept results, and is bit-identical to one that drew
    them itself. Raises StoreError.
    """
    donor, taker = run_store(source, runs), run_store(target, runs)
    for kept in donor.memo(0).of_phases(DRAWN):
        for ref in kept.refs():
            _share(donor, ref.path, taker.directory)
        taker.memo(0).keep(kept)


def _check_place(place: _Place, config: Config) -> None:
    """Raise ConfigError or StoreError if there can be no fork there."""
    parent, at, phase = place.parent, place.at, place.phase
    if phase is not None and phase not in PHASES:
        raise ConfigError(f"--phase {phase}: a fork can share the phases {', '.join(PHASES)}")
    if place.before.rollout.max_staleness or config.rollout.max_staleness:
        raise ConfigError("A run with rollout.max_staleness samples from older weights, which a fork does not have")
    if not 0 <= place.version < len(parent.committed_steps()):
        raise StoreError(
            f"Run {parent.name!r} has not got there: its last commit is {len(parent.committed_steps()) - 1}"
        )
    forked = parent.fork()
    is_of_another = forked is not None and at <= forked.version  # with that run's settings
    if phase and (is_of_another or not place.results()):
        raise StoreError(
            f"Run {parent.name!r} keeps no results of the phases of step {at}: it has not begun it, was forked after "
            f"it, or `ares gc` has deleted them. Share less: --at {at - 1} without --phase"
        )


def _check_past(place: _Place, run: Run, digests: dict[str, Any]) -> None:
    """Raise ConfigError or StoreError if what is shared does not fit the fork's data, model or settings."""
    parent = place.parent
    check_model(parent, run.config)
    known = parent.read_run()["digests"]
    if digests["train"] != known["train"]:
        raise ConfigError("A fork keeps the train set of its run: data.train, and what it holds, cannot change")
    try:
        RunState.restored(run.config, len(run.train_set), parent.read_commit(place.version).state)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"The controllers of {parent.name!r} after step {place.version} do not fit the new settings ({error}): "
            "another kind of controller starts with a run of its own"
        ) from error
    changed = changed_files(run.config, known, digests)
    if digests.get("reference") != known.get("reference"):
        changed["model.reference"] = "model.reference"
    check_fork(place.before, run.config, changed, place.at, place.phase)


def _write_fork(place: _Place, run: Run, digests: dict[str, Any], why: str) -> None:
    """Put the new run's directory together from what is shared, completely or not at all."""
    parent, directory = place.parent, run.store.directory
    # Deleted as a whole if anything fails; by `ares gc`, if this process is killed and so holds it no longer.
    target = RunStore(directory.with_name(f".{directory.name}.{uuid4().hex}.partial"))
    with held(target.directory), ExitStack() as ending:
        ending.callback(shutil.rmtree, target.directory, ignore_errors=True)
        for step in range(place.version + 1):
            _share(parent, parent.step_path(step), target.directory)
            checkpoint = parent.read_commit(step).artifacts.get("checkpoint")
            if checkpoint is not None:
                _share(parent, checkpoint.path, target.directory)
        for kept in place.results():
            for ref in kept.refs():
                _share(parent, ref.path, target.directory)
            target.memo(place.at).keep(kept._replace(key=owned_key(run.identity, kept.key)))
        described = Fork(
            run=parent.name,
            at=place.at,
            phase=place.phase,
            version=place.version,
            commit=parent.read_commit(place.version).digest(),
            checkpoint=_checkpoint(place, target),
            why=why,
        )
        target.flush()
        target.write_run(
            description_of(run.config, run.store.name, digests) | {"fork": described.model_dump(mode="json")}
        )
        os.rename(target.directory, directory)
    try:
        RunStore(directory).publish()
    except StoreError:
        shutil.rmtree(directory)
        raise


def _share(source: RunStore, path: str, target: Path) -> None:
    """Link a run's artifact, or what is left of it, into another run's directory; copy what is appended to."""
    for file in files_in(source.here(path)):
        place = target / file.relative_to(source.directory)
        if place.exists() or not file.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            if file.name == MEMO_FILE:
                shutil.copyfile(file, place)
            else:
                os.link(file, place)
        except OSError as error:
            raise StoreError(f"{place}: cannot be linked to {file}: {error.strerror}; runs share one disk") from error


def _checkpoint(place: _Place, target: RunStore) -> Ref | None:
    """The weights a fork starts from: the run's own checkpoint, else one made by replaying with the run's settings.

    The fork itself must not replay batches of its past: with its settings they would give other weights.
    """
    parent, version = place.parent, place.version
    if version == 0:
        return None
    own = parent.read_commit(version).artifacts.get("checkpoint")
    if own is not None and target.intact([own]):
        return own
    check_model(parent, place.before, replays=True)
    check_weights(parent, version)
    folder = parent.directory / f".fork-{target.name.strip('.')}"
    with held(folder):  # `ares gc` leaves it alone
        try:
            workers = _workers_of(place.before, parent)
            try:
                made = asyncio.run(workers.save(version, f"{folder.name}/checkpoint"))
            finally:
                workers.close()
            (target.directory / "checkpoints").mkdir(parents=True, exist_ok=True)
            os.rename(parent.path(made), target.directory / f"checkpoints/{version:06d}")
        finally:
            parent.remove(folder)
    return made.model_copy(update={"path": f"checkpoints/{version:06d}"})


def _workers_of(config: Config, store: RunStore) -> Workers:
    """Who replays a run's updates: this process, or for several ranks, whose sums round differently, Ray's actors."""
    if config.learner.ranks == 1 and config.rollout.engines == 1:
        return PlainWorkers(config, store)
    from ares.cluster import Cluster

    return Cluster(config, store)
