"""Whether a run directory is what was written: reads every commit, artifact, checkpoint and kept result once.

Covered: what is damaged or missing, the step after which a resume begins. Writes nothing, except that the copy of a run
at a URL downloads what it lacks. Not covered: the checks at every start (ares/store), evaluations.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ares.runs.run import resumed_commit
from ares.store import MEMO_FILE, DamagedArtifact, Ref, RunStore, read_config, read_finished_memo

NOT_NEEDED_LATER = ("checkpoint", "batch", "under-way")
"""What may be missing before an intact checkpoint: older checkpoints are deleted, and `ares gc` deletes the others."""
READ_AGAIN = ("rollout", "score", "experience")
"""Phases whose files are read after the commit, which does not name them: by `ares rescore`, `replay` and `browse`."""


@dataclass(frozen=True)
class Verification:
    """What was found."""

    damages: list[str]
    """A line for each file that is not what was written."""
    commits: int
    intact: set[Ref]
    """Artifacts."""
    resumes_after: int | None
    """The step after which a resume begins; None: with the bootstrap."""


def verify(store: RunStore) -> Verification:
    """Read a whole run directory. Raises StoreError or DamagedArtifact if run.json is missing or damaged."""
    config, damages = read_config(store), []
    commits = [store.read_commit(step) for step in store.committed_steps()]
    intact = {ref for commit in commits for ref in commit.artifacts.values() if store.intact([ref])}
    newest = max((commit.step for commit in commits if commit.artifacts.get("checkpoint") in intact), default=-1)
    for step, (name, ref) in ((commit.step, named) for commit in commits for named in commit.artifacts.items()):
        is_deleted = not (store.directory / ref.path).exists() and name.startswith(NOT_NEEDED_LATER) and step < newest
        if ref not in intact and not is_deleted:
            damages.append(_damage(store, ref))
    counted = {store.directory / store.step_path(commit.step) / "COMMIT.json" for commit in commits}
    for path in sorted({*store.directory.glob("*/**/COMMIT.json")} - counted):
        damages.append(f"{store.name_of(path)} is damaged, or does not follow from the commit before it")
    named = {ref for commit in commits for ref in commit.artifacts.values()}
    for commit in commits:
        damages += _damages_of_phases(store, commit.step, named)
        store.forget(commit.step)
    for step in (len(commits), len(commits) + 1):  # in flight
        if not store.memo(step).is_intact:
            damages.append(f"{store.step_path(step)}/{MEMO_FILE} is damaged")
    resumed = resumed_commit(config, store)
    return Verification(damages, len(commits), intact, None if resumed is None else resumed.step)


def _damages_of_phases(store: RunStore, step: int, named: set[Ref]) -> Iterator[str]:
    """A line for each file that a committed step's phases wrote and no commit has named, and for their results."""
    if not store.memo(step).path.exists():  # `ares gc` has deleted it, and these files with it
        return
    try:
        memo = read_finished_memo(store, step)
    except DamagedArtifact:
        yield f"{store.step_path(step)}/{MEMO_FILE} is damaged"
    else:
        refs = {ref.path: ref for kept in memo.of_phases(READ_AGAIN) for ref in kept.refs()}
        own = [ref for ref in refs.values() if ref.path.startswith(f"{store.step_path(step)}/")]
        yield from (_damage(store, ref) for ref in own if ref not in named and not store.intact([ref]))


def _damage(store: RunStore, ref: Ref) -> str:
    exists = (store.directory / ref.path).exists()
    return f"{ref.path} {'has changed since it was written' if exists else 'is missing'}"
