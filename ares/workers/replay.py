"""What the weights after a step are rebuilt from: a checkpoint and the committed batches since then.

Not covered: rebuilding them (ares/workers/workers.py).
"""

import logging

from ares.store import DamagedArtifact, Ref, RunStore, StoreError

logger = logging.getLogger(__name__)


def newest_checkpoint(store: RunStore, version: int) -> tuple[int, Ref | None]:
    """The last whole checkpoint at or before a version, and its version: None at 0, where a run begins.

    Raises DamagedArtifact where a fork's first weights are gone.
    """
    fork, finished = store.fork(), set(store.committed_steps())  # not commits of a past that is being redone
    for step in range(version, 0, -1):
        if fork is not None and step == fork.version:
            # Its settings would make other weights of the batches that came before.
            if fork.checkpoint is None or not store.intact([fork.checkpoint]):
                raise DamagedArtifact(
                    f"{store.directory}: the weights it was forked with after step {step} of {fork.run!r} "
                    "are gone, and so is every later checkpoint; fork it again"
                )
            return step, fork.checkpoint
        if step in finished:
            checkpoint = store.checkpoint_of(step)
            if checkpoint is not None and store.intact([checkpoint]):
                return step, checkpoint
    return 0, None


def latest_checkpoint(store: RunStore, last: int | None = None) -> tuple[int, Ref | None]:
    """The newest whole checkpoint (at or before step `last`) and its step: None at 0. For weights that are not rebuilt.

    Warns of newer checkpoints and commits that are damaged. Raises DamagedArtifact if those of step `last` are.
    """
    finished = store.committed_steps()
    ends = len(finished) if last is None else min(last, len(finished))  # at most the first step that does not count
    version, checkpoint = newest_checkpoint(store, min(ends, len(finished) - 1))
    for step in range(version + 1, ends + 1):
        made = store.checkpoint_of(step) if step in finished else None
        path = made.path if made else f"{store.step_path(step)}/COMMIT.json"
        is_other = made is None and store.digest(step) is not None  # has no checkpoint, or is of another past
        if not is_other and (store.directory / path).exists():
            damaged = f"{store.directory / path} is damaged"
            if step == last:
                raise DamagedArtifact(f"{damaged}; restore it from a copy, or name another step")
            logger.warning("%s: the weights after step %d are taken instead", damaged, version)
    return version, checkpoint


def first_unreplayable(store: RunStore, version: int) -> int | None:
    """The first step whose batch is needed to reach the weights of a version and is missing or damaged."""
    start, _ = newest_checkpoint(store, version)
    for step in range(start + 1, version + 1):
        if not store.intact([store.read_commit(step).artifacts["batch"]]):
            return step
    return None


def check_weights(store: RunStore, version: int) -> None:
    """Raise StoreError where the weights after a step cannot be rebuilt, as of those that `ares gc` pruned."""
    fork = store.fork()
    if fork is not None and version < fork.version and newest_checkpoint(store, version)[0] < version:
        raise StoreError(
            f"Run {store.name!r} was forked from {fork.run!r} after step {fork.version}, and has no checkpoint of step "
            f"{version}: its settings would make other weights of the batches before that; use {fork.run!r} instead"
        )
    missing = first_unreplayable(store, version)
    if missing is not None:
        kept = [step for step in store.committed_steps() if newest_checkpoint(store, step)[0] == step > 0]
        raise StoreError(
            f"Run {store.name!r}: the weights after step {version} cannot be rebuilt, since the batch of step "
            f"{missing} is gone or damaged. Weights are kept after steps {', '.join(map(str, kept)) or 'none'}"
        )
