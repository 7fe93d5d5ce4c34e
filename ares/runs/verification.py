"""Whether a run directory is what was written: reads every commit, artifact, checkpoint and kept result once.

Covered: what is damaged or missing, the consequences, the step after which a resume begins. Writes nothing, except that
the copy of a run at a URL downloads what it lacks. Not covered: the checks at every start (ares/store), evaluations.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ares.runs.run import read_config, resumed_commit
from ares.store import MEMO_FILE, Commit, DamagedArtifact, Ref, RunStore

CONSEQUENCES = {
    "batch": "a resume or fork from before it does the step again",
    "checkpoint": "it is ignored, the weights are replayed from an earlier one",
    "under-way": "of the last step: a resume does the step again",
    "samples": "training does not read it again",
    "evaluation": "training does not read it again",
}
"""By kind of artifact: its name without the number of a shard."""
NOT_NEEDED_LATER = ("checkpoint", "batch", "under-way")
"""What may be missing before an intact checkpoint: older checkpoints are deleted, and `ares gc` deletes the others."""


@dataclass(frozen=True)
class Verification:
    """What was found."""

    damages: list[str]
    """A line for each file that is not what was written, with the consequence."""
    commits: int
    intact: set[Ref]
    """Artifacts."""
    resumes_after: int | None
    """The step after which a resume begins; None: with the bootstrap."""


def verify(store: RunStore) -> Verification:
    """Read a whole run directory. Raises StoreError or DamagedArtifact if run.json is missing or damaged."""
    config = read_config(store)
    commits = [store.read_commit(step) for step in store.committed_steps()]
    intact = {ref for commit in commits for ref in commit.artifacts.values() if store.intact([ref])}
    resumed = resumed_commit(config, store)
    damages = [*_artifacts(store, commits, intact), *_commits_after(store, len(commits))]
    for step in (len(commits), len(commits) + 1):  # in flight
        if not store.memo(step).is_intact:
            path = f"{store.step_path(step)}/{MEMO_FILE}"
            damages.append(f"{path} is damaged: a resume does the phases from the damaged line on again")
    return Verification(damages, len(commits), intact, None if resumed is None else resumed.step)


def _artifacts(store: RunStore, commits: list[Commit], intact: set[Ref]) -> Iterator[str]:
    newest = max((commit.step for commit in commits if commit.artifacts.get("checkpoint") in intact), default=-1)
    for commit in commits:
        for name, ref in commit.artifacts.items():
            kind, exists = name.rstrip("-0123456789"), (store.directory / ref.path).exists()
            is_deleted = not exists and kind in NOT_NEEDED_LATER and commit.step < newest
            if ref not in intact and not is_deleted:
                what = "has changed since it was written" if exists else "is missing"
                yield f"{ref.path} {what}: {CONSEQUENCES.get(kind, 'whatever reads it says so')}"


def _commits_after(store: RunStore, first: int) -> Iterator[str]:
    """Commits that do not count."""
    for folder in sorted(store.children("steps") if first else [store.directory / "bootstrap"]):
        step = int(folder.name) if folder.name.isdigit() else 0
        if step < first or not (folder / "COMMIT.json").exists():
            continue
        try:
            store.read_commit(step)
            what = "does not follow from the commit before it"
        except DamagedArtifact:
            what = "is damaged"
        yield f"{store.step_path(step)}/COMMIT.json {what}: a resume does the step again"
