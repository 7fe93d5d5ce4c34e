"""Artifacts: written whole or not at all, and checked when they are read."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from pyarrow import ArrowNotImplementedError
from safetensors import SafetensorError

from ares.store.files import remove_tree
from ares.store.sealed_lines import Journal
from ares.store.store import DamagedArtifact, RunStore, StoreError
from tests.ares.store_builders import KINDS, READERS, ROWS, WRITERS, chain, commit, everything, fill, flip


def test_what_was_written_is_read_back(store: RunStore) -> None:
    assert READERS["json"](store, store.write_json("a/b.json", {"x": [1, 2.5, None]})) == {"x": [1, 2.5, None]}
    pd.testing.assert_frame_equal(
        store.read_rows(store.write_rows("r.parquet", ROWS)), ROWS, check_dtype=False, check_column_type=False
    )
    assert (store.path(store.write_folder("f", fill)) / "inner" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_content_has_the_same_ref_wherever_it_is(kind: str, store: RunStore, tmp_path: Path) -> None:
    ref = WRITERS[kind](store, "deep/x")
    assert WRITERS[kind](RunStore(tmp_path / "other"), "deep/x") == ref
    assert ref.bytes > 0
    store.directory.rename(tmp_path / "moved")
    moved = RunStore(tmp_path / "moved")
    READERS[kind](moved, ref)
    assert moved.intact([ref])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit": lambda path: flip(path / "b.txt" if path.is_dir() else path),
    "all of it": remove_tree,
    "a file more": lambda folder: (folder / "c.txt").write_text("c"),
    "a file less": lambda folder: (folder / "b.txt").unlink(),
    "another name": lambda folder: (folder / "b.txt").rename(folder / "c.txt"),
}


@pytest.mark.parametrize(
    ("kind", "damage"),
    [(kind, damage) for damage in DAMAGES for kind in KINDS if kind == "folder" or damage in ("a bit", "all of it")],
)
def test_what_is_not_what_was_written_is_a_damaged_artifact(kind: str, damage: str, store: RunStore) -> None:
    refs = [WRITERS[kind](store, name) for name in ("x", "y")]
    assert store.intact(refs)
    DAMAGES[damage](store.directory / "x")
    assert not store.intact(refs)
    what = "is missing" if damage == "all of it" else "has changed since it was written"
    with pytest.raises(DamagedArtifact, match=f"x {what}"):
        READERS[kind](store, refs[0])


def test_a_folder_written_again_holds_the_new_files_only(store: RunStore) -> None:
    store.write_folder("f", fill)
    ref = store.write_folder("f", lambda folder: (folder / "c.txt").write_text("c") and None)
    assert everything(store) == ["f/c.txt"]
    assert store.intact([ref])


class Interrupted(Exception):
    pass


def fails_midway(folder: Path) -> None:
    (folder / "half.txt").write_text("half")
    raise Interrupted


def test_a_writer_that_fails_midway_leaves_what_was_there(store: RunStore) -> None:
    with pytest.raises(Interrupted):
        store.write_folder("f", fails_midway)
    with pytest.raises(ValueError, match="JSON"):
        store.write_json("x.json", {"a": float("nan")})
    with pytest.raises(ArrowNotImplementedError):
        store.write_rows("r.parquet", pd.DataFrame({"a": [{}, {}]}))
    assert everything(store) == []
    ref = store.write_folder("f", fill)
    with pytest.raises(Interrupted):
        store.write_folder("f", fails_midway)
    assert store.intact([ref])
    assert everything(store) == ["f/b.txt", "f/inner/a.txt"]


def test_a_full_disk_is_reported_with_its_remedy_whichever_library_wrote(store: RunStore) -> None:
    def fails(error: Exception) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            raise error

        return write

    rust = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    for error in (OSError(28, "No space left on device"), rust):
        with pytest.raises(StoreError, match=r"The disk is full: free some space"):
            store.write_folder("f", fails(error))
    assert everything(store) == []


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is synced, in order."""
    paths: list[Path] = []
    for module in ("lock", "store"):
        monkeypatch.setattr(f"ares.store.{module}.fsync", lambda path: paths.append(path.resolve()))
    return paths


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_a_commit_needs_is_synced_before_it(kind: str, store: RunStore, synced: list[Path]) -> None:
    """A run's holder makes its folder, and a journal that of a step: neither name was ever synced, so a power failure
    could lose committed steps."""
    shutil.rmtree(store.directory, ignore_errors=True)
    with store.lock():
        Journal(store.directory / "steps/000001/rollout.journal", "key").add(ROWS)
        refs = [WRITERS[kind](store, place) for place in ("steps/000001/x", "checkpoints/000001")]
        store.discard(WRITERS[kind](store, "steps/000001/y"))
        store.write_commit(commit(1, None, artifacts={"checkpoint": refs[1]}))
    (committed,) = [place for place, path in enumerate(synced) if ".COMMIT.json" in path.name]
    written = [store.directory / ref.path for ref in refs]
    wanted = {each for path in written for each in [path, *path.rglob("*"), path.parent]}
    wanted |= {store.directory / "steps", store.directory, store.directory.parent}
    assert {path.resolve() for path in wanted} <= set(synced[:committed])
    assert (store.directory / "steps/000001").resolve() in synced[committed:]  # its own name


def test_run_json_is_synced_with_its_name(store: RunStore, synced: list[Path]) -> None:
    store.write_run({"run": "run"})
    assert {store.directory.resolve(), store.directory.parent.resolve()} <= set(synced)


def test_nothing_is_committed_that_the_disk_has_refused(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise OSError(28, "No space left on device")

    store.write_json("bootstrap/x", 1)
    monkeypatch.setattr("ares.store.store.fsync", refused)
    with pytest.raises(StoreError, match=r"cannot be put on disk: .*The disk is full"):
        chain(store, 1)
    assert store.last_commit() is None
