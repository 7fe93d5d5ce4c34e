"""Listing, hashing, syncing and deleting files and folders.

Not covered: when an artifact counts as written (ares/store/store.py).
"""

import hashlib
import os
import shutil
from pathlib import Path


def files_in(path: Path) -> list[Path]:
    """The files of a tree, in order; a file is a tree of one."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def file_digest(path: Path) -> str:
    """sha256 of a file's content."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def tree_hash(path: Path) -> str | None:
    """sha256 of a file, or of a folder's names and file hashes; None when there is nothing."""
    if path.is_file():
        return file_digest(path)
    if not path.is_dir():
        return None
    lines = [f"{file.relative_to(path)} {tree_hash(file)}" for file in files_in(path)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def remove_tree(path: Path) -> None:
    """Delete a file, or a folder with everything in it, if it is there; of a link only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def fsync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
