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
class Damage:
    """A file or folder that is not what was written, and the consequence."""

    path: str
    what: str
    consequence: str


@dataclass(frozen=True)
class Verification:
    """The result: damage, and totals of what is intact."""

    damages: list[Damage]
    commits: int
    artifacts: int
    bytes: int
    resumes_after: int | None
    """The step after which a resume begins; None: with the bootstrap."""


def verify(store: RunStore) -> Verification:
    """Read a whole run directory. Raises StoreError or DamagedArtifact if run.json is missing or damaged."""
    config = read_config(store)
    commits = [store.read_commit(step) for step in store.committed_steps()]
    intact = {ref: store.intact([ref]) for commit in commits for ref in commit.artifacts.values()}
    resumed = resumed_commit(config, store)
    return Verification(
        damages=[
            *_artifacts(store, commits, intact),
            *_commits_after(store, len(commits)),
            *_memos(store, len(commits)),
        ],
        commits=len(commits),
        artifacts=sum(intact.values()),
        bytes=sum(ref.bytes for ref, is_intact in intact.items() if is_intact),
        resumes_after=None if resumed is None else resumed.step,
    )


def _artifacts(store: RunStore, commits: list[Commit], intact: dict[Ref, bool]) -> Iterator[Damage]:
    checkpoints = {commit.step: commit.artifacts.get("checkpoint") for commit in commits}
    newest = max((step for step, ref in checkpoints.items() if ref is not None and intact[ref]), default=-1)
    for commit in commits:
        for name, ref in commit.artifacts.items():
            kind, exists = name.rstrip("-0123456789"), (store.directory / ref.path).exists()
            is_deleted = not exists and kind in NOT_NEEDED_LATER and commit.step < newest
            if not intact[ref] and not is_deleted:
                what = "has changed since it was written" if exists else "is missing"
                yield Damage(ref.path, what, CONSEQUENCES.get(kind, "whatever reads it says so"))


def _commits_after(store: RunStore, first: int) -> Iterator[Damage]:
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
        yield Damage(f"{store.step_path(step)}/COMMIT.json", what, "a resume does the step again")


def _memos(store: RunStore, first: int) -> Iterator[Damage]:
    """What the phases of the steps in flight have found."""
    for step in (first, first + 1):
        if not store.memo(step).is_intact:
            path = f"{store.step_path(step)}/{MEMO_FILE}"
            yield Damage(path, "is damaged", "a resume does the phases from the damaged line on again")
