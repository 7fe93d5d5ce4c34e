"""What is kept: the files of a run, whole or absent, on this machine and where they are mirrored.

Covered: artifacts with hashes, commits, locks, upload and download. Not covered: what an artifact means (tasks/).
"""

from ares.store.mirror import path_of
from ares.store.store import Commit, DamagedArtifact, Fork, Ref, RunStore, StoreError

__all__ = [
    "Commit",
    "DamagedArtifact",
    "Fork",
    "Ref",
    "RunStore",
    "StoreError",
    "path_of",
]
