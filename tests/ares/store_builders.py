"""Artifacts of every kind and chains of commits, for the tests of the store."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pandas as pd

from ares.store.store import Commit, Ref, RunStore

ROWS = pd.DataFrame({"id": ["a", "b"], "accuracy": pd.array([1.0, None], dtype="Float64"), "token_ids": [[1, 2], [3]]})


def fill(folder: Path) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "a.txt").write_text("a")
    (folder / "b.txt").write_text("b")


WRITERS: dict[str, Callable[[RunStore, str], Ref]] = {
    "json": lambda store, path: store.write_json(path, {"a": [1, None]}),
    "rows": lambda store, path: store.write_rows(path, ROWS),
    "folder": lambda store, path: store.write_folder(path, fill),
}
READERS: dict[str, Callable[[RunStore, Ref], Any]] = {
    "json": lambda store, ref: json.loads(store.path(ref).read_bytes()),
    "rows": RunStore.read_rows,
    "folder": RunStore.path,
}
KINDS = list(WRITERS)


def flip(file: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def everything(store: RunStore) -> list[str]:
    """Files under the run directory, hidden ones included."""
    return sorted(str(path.relative_to(store.directory)) for path in store.directory.rglob("*") if path.is_file())


def commit(step: int, parent: Commit | None, **fields: Any) -> Commit:
    body = {
        "artifacts": {},
        "state": {"n": step},
        "metrics": {"m": 0.5},
        "timings": {"t": 1.0},
        "timestamp": 1,
    } | fields
    return Commit(step=step, parent=parent.digest() if parent else None, **body)


def chain(store: RunStore, length: int, of_step: Callable[[int], dict[str, Any]] = lambda step: {}) -> list[Commit]:
    """Write so many commits, each the child of the one before. of_step: fields of each."""
    commits: list[Commit] = []
    for step in range(length):
        commits.append(commit(step, commits[-1] if commits else None, **of_step(step)))
        store.write_commit(commits[-1])
    return commits


def with_checkpoints(store: RunStore, length: int, steps: Collection[int]) -> list[Commit]:
    """A chain of commits, some of them with a checkpoint."""

    def made(step: int) -> dict[str, Any]:
        checkpoint = {"checkpoint": store.write_folder(f"checkpoints/{step:06d}", fill)} if step in steps else {}
        return {"artifacts": checkpoint}

    return chain(store, length, made)
