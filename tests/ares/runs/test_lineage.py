"""Forks beside `ares gc`, and of one that was killed (the rest: tests/e2e/test_lineage.py)."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.runs import lineage
from ares.runs.lineage import fork
from ares.runs.retention import prune
from ares.runs.run import Run
from ares.store import Ref, RunStore, StoreError
from ares.store.mirror import Mirror, path_of
from tests.ares.builders import config
from tests.ares.store_builders import chain


def first(runs: Path) -> RunStore:
    """A run of one step with a checkpoint, for which no actor was started."""
    run = Run.open(config(), "first", runs)

    def made(step: int) -> dict[str, Any]:
        artifacts = {"checkpoint": run.store.write_json("checkpoints/000001", {})} if step else {}
        return {"artifacts": artifacts, "state": run.state.state_dict() | {"step": step}}

    chain(run.store, 2, made)
    return run.store


def test_gc_leaves_the_folder_of_a_forks_checkpoint_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted as a leftover, and was deleted under the replay."""
    parent = first(tmp_path)
    (parent.directory / "checkpoints/000001").unlink()

    async def save(version: int, path: str) -> Ref:
        ref = parent.write_json(path, {"version": version})
        prune(RunStore(parent.directory), dry_run=False)
        return ref

    monkeypatch.setattr(lineage, "check_weights", lambda *_: None)
    monkeypatch.setattr(lineage, "_workers_of", lambda *_: SimpleNamespace(save=save, close=lambda: None))
    fork("first", 1, None, [], "second", tmp_path)
    assert json.loads((tmp_path / "second/checkpoints/000001").read_text()) == {"version": 1}
    assert not list(parent.directory.glob(".fork-*"))


def test_a_fork_takes_nothing_from_a_killed_one_of_its_name(tmp_path: Path) -> None:
    """Where processes get the same ids again, as in containers, its past was the killed one's, without a word."""
    left = tmp_path / f".second.{os.getpid()}.partial"
    first(tmp_path)
    shutil.copytree(tmp_path / "first/steps/000001", left / "steps/000001")
    fork("first", 0, None, [], "second", tmp_path)
    assert RunStore(tmp_path / "second").committed_steps() == [0]


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize(("uploads", "machine"), [(0, "same"), (1, "other"), (4, "same"), (4, "other")])
def test_a_killed_fork_is_remade(uploads: int, machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name was burnt on this machine; on another, the new fork was laid over the steps of the killed one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "same"))
    runs, put, done = path_of(f"file://{tmp_path}/place"), Mirror.put, 0
    first(runs)

    def put_some(self: Mirror, files: dict[str, Path]) -> None:
        nonlocal done
        if done == uploads:
            raise Killed
        done += 1
        put(self, files)

    with monkeypatch.context() as patch:
        patch.setattr(Mirror, "put", put_some)
        with pytest.raises(Killed):
            fork("first", 1, None, [], "second", runs)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))
    runs = path_of(f"file://{tmp_path}/place")
    fork("first", 0, None, [], "second", runs)
    there = {path.name for path in (tmp_path / "place" / "second").iterdir()}
    assert there == {"bootstrap", "lock", "run.json"}
    assert RunStore(runs / "second").committed_steps() == [0]
    with pytest.raises(StoreError, match="There is a run 'second' already"):
        fork("first", 0, None, [], "second", runs)
