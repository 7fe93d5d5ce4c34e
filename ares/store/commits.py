"""run.json and COMMIT.json: their models, checksums and format version.

Files of format 1 have neither checksum nor version; they are read. Not covered: where the files lie, how commits are
chained (ares/store/store.py).
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ares.store.errors import DamagedArtifact, StoreError

FORMAT = 2
"""1: without version and checksum."""


def sealed(body: dict[str, Any]) -> dict[str, Any]:
    """A body as it is written: with the format version and a checksum over both."""
    whole = body | {"format": FORMAT}
    return whole | {"checksum": _checksum(whole)}


def unsealed(content: bytes, path: Path) -> dict[str, Any]:
    """A file's body. Raises DamagedArtifact, or StoreError if a newer version of ares wrote it."""
    try:
        body = dict(json.loads(content))
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedArtifact(f"{path}: not readable as JSON ({error}); restore it from a copy") from error
    told, version = body.pop("checksum", None), body.get("format")
    if told is None and version is None:
        return body
    if told != _checksum(body):
        raise DamagedArtifact(f"{path} has changed since it was written; restore it from a copy")
    if version != FORMAT:
        raise StoreError(f"{path}: format {version} is of another version of ares, this one reads up to {FORMAT}")
    return {name: value for name, value in body.items() if name != "format"}


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


class Ref(BaseModel, frozen=True):
    """Where an artifact lies (relative to the run directory) and the hash of its content."""

    path: str
    sha256: str
    bytes: int


class Commit(BaseModel, extra="forbid"):
    """What a finished step leaves behind: enough to resume from, and to check everything before it."""

    step: int
    """Steps finished: 0 after the bootstrap, 1 after the first training step."""
    parent: str | None
    """Digest of the previous commit; a run resumes only from an unbroken chain."""
    artifacts: dict[str, Ref]
    state: dict[str, Any]
    """The whole run state after the step (ares.step.RunState)."""
    metrics: dict[str, float]
    """Deterministic: a resumed run has the same."""
    timings: dict[str, float]
    """Seconds and rates of this execution."""
    timestamp: int
    """Milliseconds since the epoch. Metrics are logged with it, so that logging them twice adds nothing."""

    def digest(self) -> str:
        """Hash over everything that a resumed run must reproduce."""
        body = self.model_dump(mode="json", exclude={"timings", "timestamp"})
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


class Fork(BaseModel):
    """Where a forked run comes from (ares/runs/lineage.py)."""

    run: str
    at: int
    phase: str | None
    """Last phase of step `at` whose results are shared; None: the whole step is."""
    version: int
    """Finished steps that both runs share."""
    commit: str
    """Digest of the last commit that is shared."""
    checkpoint: Ref | None
    """The weights after step `version`; None: those the run was started with."""
    why: str = ""
    """What tripped where a run forked itself (flows/watch.py)."""
