"""Whether a run directory is what was written: reads every commit, artifact, checkpoint and kept result once.

Covered: what is damaged or missing, the consequences, the step after which a resume begins. Writes nothing, except that
the copy of a run at a URL downloads what it lacks. Not covered: the checks at every start (ares/store), evaluations.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ares.runs.run import read_config, resumed_commit
from ares.store import Commit, DamagedArtifact, RunStore

CONSEQUENCES = {
    "batch": "a resume or fork from before it does the step again",
    "checkpoint": "it is ignored, the weights are replayed from an earlier one",
    "under-way": "of the last step: a resume does the step again",
    "samples": "training does not read it again",
    "evaluation": "training does not read it again",
}


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
    config, steps = read_config(store), store.committed_steps()
    commits = [store.read_commit(step) for step in steps]
    refs = [(commit, name) for commit in commits for name in commit.artifacts]
    whole = {(commit.step, name): store.intact([commit.artifacts[name]]) for commit, name in refs}
    damages = [
        _damage(store, commit, name)
        for commit, name in refs
        if not whole[commit.step, name] and not _deleted(store, commit, name, whole)
    ]
    damages += [*_commits_after(store, len(steps)), *_results(store, len(steps))]
    resumed = resumed_commit(config, store)
    known = [commit.artifacts[name].bytes for commit, name in refs if whole[commit.step, name]]
    return Verification(damages, len(steps), len(known), sum(known), None if resumed is None else resumed.step)


def _damage(store: RunStore, commit: Commit, name: str) -> Damage:
    path = commit.artifacts[name].path
    what = "has changed since it was written" if (store.directory / path).exists() else "is missing"
    return Damage(path, what, CONSEQUENCES.get(_kind(name), "whatever reads it says so"))


def _deleted(store: RunStore, commit: Commit, name: str, whole: dict[tuple[int, str], bool]) -> bool:
    """Whether an artifact is gone because it is no longer needed: older checkpoints, and what `ares gc` deletes."""
    if (store.directory / commit.artifacts[name].path).exists():
        return False
    later = [step for (step, artifact), intact in whole.items() if artifact == "checkpoint" and intact]
    return _kind(name) in ("checkpoint", "batch", "under-way") and any(step > commit.step for step in later)


def _kind(name: str) -> str:
    """The name of an artifact without the number of a shard."""
    return name.rstrip("-0123456789")


def _commits_after(store: RunStore, first: int) -> Iterator[Damage]:
    for folder in sorted(store.children("steps") if first else [store.directory / "bootstrap"]):
        commit = folder / "COMMIT.json"
        step = int(folder.name) if folder.name.isdigit() else 0
        if step < first or not commit.exists():
            continue
        try:
            store.read_commit(step)
            what = "does not follow from the commit before it"
        except DamagedArtifact:
            what = "is damaged"
        yield Damage(_relative(store, commit), what, "a resume does the step again")


def _results(store: RunStore, first: int) -> Iterator[Damage]:
    for step in (first, first + 1):
        memo = store.memo(step)
        if not memo.is_intact:
            yield Damage(_relative(store, memo.path), "is damaged", "a resume does the phases after that line again")


def _relative(store: RunStore, path: Path) -> str:
    return path.relative_to(store.directory).as_posix()
