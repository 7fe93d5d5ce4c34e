import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from pyarrow import ArrowNotImplementedError
from safetensors import SafetensorError
from safetensors.torch import save_file

from ares.store.store import Commit, DamagedArtifact, Ref, RunStore, StoreError
from tests.ares.builders import REPOSITORY

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
    "json": RunStore.read_json,
    "rows": RunStore.read_rows,
    "folder": RunStore.folder,
}
KINDS = list(WRITERS)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run")


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


def chain(store: RunStore, length: int) -> list[Commit]:
    commits: list[Commit] = []
    for step in range(length):
        commits.append(commit(step, commits[-1] if commits else None))
        store.write_commit(commits[-1])
    return commits


# ---- artifacts -----------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_back(store: RunStore) -> None:
    assert store.read_json(store.write_json("a/b.json", {"x": [1, 2.5, None]})) == {"x": [1, 2.5, None]}
    pd.testing.assert_frame_equal(
        store.read_rows(store.write_rows("r.parquet", ROWS)), ROWS, check_dtype=False, check_column_type=False
    )
    assert (store.folder(store.write_folder("f", fill)) / "inner" / "a.txt").read_text() == "a"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_content_has_the_same_ref_wherever_it_is_written(kind: str, tmp_path: Path) -> None:
    first, second = (WRITERS[kind](RunStore(tmp_path / name), "x") for name in ("one", "two"))
    assert first == second
    assert first.bytes > 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_artifact_is_found_after_the_run_directory_moved(kind: str, store: RunStore, tmp_path: Path) -> None:
    ref = WRITERS[kind](store, "deep/x")
    store.directory.rename(tmp_path / "moved")
    moved = RunStore(tmp_path / "moved")
    READERS[kind](moved, ref)
    assert moved.intact([ref])


@pytest.mark.parametrize("kind", KINDS)
def test_changed_content_is_a_damaged_artifact(kind: str, store: RunStore) -> None:
    ref = WRITERS[kind](store, "x")
    assert store.intact([ref])
    path = store.directory / "x"
    target = path / "b.txt" if kind == "folder" else path
    content = bytearray(target.read_bytes())
    content[-1] ^= 1
    target.write_bytes(content)
    assert not store.intact([ref])
    with pytest.raises(DamagedArtifact, match=r"x has changed since it was written"):
        READERS[kind](store, ref)


@pytest.mark.parametrize("kind", KINDS)
def test_an_absent_artifact_is_a_damaged_artifact(kind: str, store: RunStore) -> None:
    with pytest.raises(DamagedArtifact, match="is missing"):
        READERS[kind](store, Ref(path="x", sha256="0" * 64, bytes=1))


@pytest.mark.parametrize("change", ["added", "removed", "renamed"])
def test_a_folder_with_other_files_is_a_damaged_artifact(change: str, store: RunStore) -> None:
    ref = store.write_folder("f", fill)
    folder = store.directory / "f"
    if change == "added":
        (folder / "c.txt").write_text("c")
    elif change == "removed":
        (folder / "b.txt").unlink()
    else:
        (folder / "b.txt").rename(folder / "c.txt")
    assert not store.intact([ref])


def test_one_damaged_artifact_of_many_is_not_intact(store: RunStore) -> None:
    refs = [WRITERS[kind](store, kind) for kind in KINDS]
    assert store.intact(refs)
    (store.directory / "json").unlink()
    assert not store.intact(refs)


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


def test_a_writer_that_fails_midway_leaves_nothing(store: RunStore) -> None:
    with pytest.raises(Interrupted):
        store.write_folder("f", fails_midway)
    with pytest.raises(ValueError, match="JSON"):
        store.write_json("x.json", {"a": float("nan")})
    with pytest.raises(ArrowNotImplementedError):
        store.write_rows("r.parquet", pd.DataFrame({"a": [{}, {}]}))
    assert everything(store) == []


def test_a_writer_that_fails_midway_leaves_the_old_content(store: RunStore) -> None:
    ref = store.write_folder("f", fill)
    with pytest.raises(Interrupted):
        store.write_folder("f", fails_midway)
    assert store.intact([ref])
    assert everything(store) == ["f/b.txt", "f/inner/a.txt"]


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to write more, as a full disk does (with another error number)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


BIG: dict[str, Callable[[RunStore, str], Ref]] = {
    "json": lambda store, path: store.write_json(path, list(range(10_000))),
    "rows": lambda store, path: store.write_rows(path, pd.DataFrame({"a": torch.randn(10_000).numpy()})),
    "tensors": lambda store, path: store.write_folder(path, lambda f: save_file({"a": torch.zeros(10_000)}, f / "a")),
    "folder": lambda store, path: store.write_folder(path, lambda f: (f / "a").write_bytes(b"0" * 10_000) and None),
}


@pytest.mark.parametrize("kind", BIG)
def test_a_write_that_the_file_system_refuses_is_a_clear_error_and_leaves_nothing(kind: str, store: RunStore) -> None:
    with no_file_larger_than(4096), pytest.raises(StoreError, match=r"x: cannot be written"):
        BIG[kind](store, "x")
    assert everything(store) == []
    assert store.intact([BIG[kind](store, "x")])


def test_a_killed_writer_leaves_no_artifact(store: RunStore) -> None:
    program = (
        "import os, signal; from pathlib import Path; from ares.store import RunStore\n"
        f"def fill(folder): (folder / 'half').write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
        f"RunStore(Path({str(store.directory)!r})).write_folder('f', fill)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY)
    assert done.returncode == -signal.SIGKILL
    assert not (store.directory / "f").exists()
    assert store.intact([store.write_folder("f", fill)])


def test_a_full_disk_is_told_with_its_remedy_whichever_library_wrote(store: RunStore) -> None:
    def fails(error: Exception) -> Callable[[Path], None]:
        def write(folder: Path) -> None:
            raise error

        return write

    rust = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    for error in (OSError(28, "No space left on device"), rust):
        with pytest.raises(StoreError, match="The disk is full: free some space"):
            store.write_folder("f", fails(error))


# ---- the run and its commits ---------------------------------------------------------------------------------------


def test_run_json_round_trip_and_its_absence(store: RunStore) -> None:
    assert not store.exists()
    with pytest.raises(StoreError, match="There is no run 'run'"):
        store.read_run()
    store.write_run({"run": "run"})
    assert store.exists()
    assert store.read_run() == {"run": "run"}
    (store.directory / "run.json").write_text("{")
    with pytest.raises(StoreError, match=r"run\.json: not readable as JSON"):
        store.read_run()


def test_a_new_run_has_no_commit(store: RunStore) -> None:
    assert store.last_commit() is None
    assert store.committed_steps() == []


def test_the_last_commit_is_the_newest_of_the_chain(store: RunStore) -> None:
    commits = chain(store, 4)
    assert store.committed_steps() == [0, 1, 2, 3]
    assert store.last_commit() == commits[-1]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"step": 3}'])
def test_a_damaged_newest_commit_is_left_out(damage: bytes, store: RunStore) -> None:
    commits = chain(store, 4)
    (store.directory / store.step_path(3) / "COMMIT.json").write_bytes(damage)
    assert store.last_commit() == commits[2]


def test_a_commit_whose_parent_was_changed_is_left_out(store: RunStore) -> None:
    commits = chain(store, 4)
    store.write_commit(commits[2].model_copy(update={"metrics": {"m": 0.6}}))
    found = store.last_commit()
    assert found is not None
    assert found.step == 2


def test_everything_after_a_damaged_commit_is_left_out(store: RunStore) -> None:
    commits = chain(store, 4)
    (store.directory / store.step_path(1) / "COMMIT.json").unlink()
    assert store.committed_steps() == [0]
    assert store.last_commit() == commits[0]


def test_a_damaged_bootstrap_leaves_no_commit(store: RunStore) -> None:
    chain(store, 1)
    (store.directory / "bootstrap" / "COMMIT.json").write_text("{")
    assert store.last_commit() is None


@pytest.mark.parametrize("field", ["timings", "timestamp"])
def test_a_commits_digest_ignores_when_and_how_fast(field: str) -> None:
    other = {"timings": {"t": 2.0}, "timestamp": 2}[field]
    assert commit(1, None).digest() == commit(1, None, **{field: other}).digest()


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("metrics", {"m": 0.6}),
        ("state", {"n": 2}),
        ("artifacts", {"batch": Ref(path="x", sha256="0", bytes=1)}),
    ],
)
def test_a_commits_digest_covers_what_a_resume_must_reproduce(field: str, other: Any) -> None:
    assert commit(1, None).digest() != commit(1, None, **{field: other}).digest()
    assert commit(1, None).digest() != commit(2, None, state={"n": 1}).digest()
    assert commit(1, None).digest() != commit(1, commit(0, None)).digest()


def test_a_commits_digest_survives_the_disk(store: RunStore) -> None:
    before = commit(0, None, metrics={"a": 0.1 + 0.2, "b": 1e-300}, state={"deep": {"é": [1, None, 2.0]}})
    store.write_commit(before)
    assert store.read_commit(0).digest() == before.digest()


def with_checkpoints(store: RunStore, steps: int, every: int = 1) -> list[Commit]:
    """A chain of commits, every so manieth with a checkpoint."""
    commits: list[Commit] = []
    for step in range(steps):
        artifacts = {"checkpoint": store.write_folder(f"checkpoints/{step:06d}", fill)} if step % every == 0 else {}
        commits.append(commit(step, commits[-1] if commits else None, artifacts=artifacts))
        store.write_commit(commits[-1])
    return commits


def checkpoints(store: RunStore) -> list[int]:
    return sorted(int(name) for name in os.listdir(store.directory / "checkpoints"))


def test_pruning_keeps_the_newest_checkpoints(store: RunStore) -> None:
    commits = with_checkpoints(store, 9, every=2)
    store.prune_checkpoints(commits[-1], 2)
    assert checkpoints(store) == [6, 8]
    store.prune_checkpoints(commits[-1], 5)
    assert checkpoints(store) == [6, 8]


def test_a_damaged_checkpoint_is_not_counted_among_those_that_are_kept(store: RunStore) -> None:
    commits = with_checkpoints(store, 4)
    (store.directory / "checkpoints/000002/b.txt").write_text("damage")
    RunStore(store.directory).prune_checkpoints(commits[-1], 2)
    assert checkpoints(store) == [1, 2, 3]


def test_a_checkpoint_just_written_outlives_those_of_a_past_that_is_done_again(store: RunStore) -> None:
    commits = with_checkpoints(store, 7)
    again = commit(3, commits[2], artifacts=commits[3].artifacts, metrics={"m": 0.75})
    store.write_commit(again)
    store.prune_checkpoints(again, 2)
    assert checkpoints(store)[:2] == [2, 3]


# ---- checksums -----------------------------------------------------------------------------------------------------


def test_a_stale_tail_after_a_step_that_was_done_again_is_left_out(store: RunStore) -> None:
    commits = chain(store, 6)
    again = commit(2, commits[1], metrics={"m": 0.75})
    store.write_commit(again)
    assert store.last_commit() == again
    assert store.committed_steps() == [0, 1, 2]
    store.write_commit(commits[2])  # the very same result again: what followed from it still does
    assert store.last_commit() == commits[5]


def flips(content: bytes) -> Iterator[bytes]:
    """The content with one bit of each byte turned over."""
    for place in range(len(content)):
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def test_no_flipped_bit_of_a_commit_is_believed(store: RunStore) -> None:
    commits = chain(store, 3)
    store.write_run({"run": "run"})
    for step in (1, 2):
        path = store.directory / store.step_path(step) / "COMMIT.json"
        content = path.read_bytes()
        for flipped in flips(content):
            path.write_bytes(flipped)
            assert RunStore(store.directory).last_commit() in (commits[step - 1], commits[2])
            with suppress(StoreError):
                assert store.read_commit(step) == commits[step]  # in the white space between values
        path.write_bytes(content)


def test_no_flipped_bit_of_run_json_is_believed(store: RunStore) -> None:
    description = {"run": "run", "config": {"lr": 4e-4, "steps": 6}, "fingerprint": "1d6ffc3fc0bd9777"}
    store.write_run(description)
    path = store.directory / "run.json"
    for flipped in flips(path.read_bytes()):
        path.write_bytes(flipped)
        with suppress(StoreError):
            assert RunStore(store.directory).read_run() == description


def unseal(path: Path) -> None:
    """Make a file one of format 1."""
    body = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in body.items() if name not in ("format", "checksum")}))


def test_a_run_of_the_first_format_is_read_and_sealed(store: RunStore) -> None:
    store.write_run({"run": "run"})
    commits = chain(store, 3)
    for path in [*store.directory.rglob("COMMIT.json"), store.directory / "run.json"]:
        unseal(path)
    old = RunStore(store.directory)
    assert old.format() == 1
    assert old.last_commit() == commits[-1]
    old.seal()
    old.write_run(old.read_run())
    new = RunStore(store.directory)
    assert new.format() == 2
    assert new.last_commit() == commits[-1]
    unseal(new.directory / new.step_path(2) / "COMMIT.json")  # a commit without a checksum is none any more
    assert RunStore(store.directory).last_commit() == commits[1]


def test_a_later_format_is_refused_with_the_reason(store: RunStore) -> None:
    store.write_run({"run": "run"})
    path = store.directory / "run.json"
    body = json.loads(path.read_text()) | {"format": 3}
    del body["checksum"]
    body["checksum"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(body))
    with pytest.raises(StoreError, match="format 3 is of another version"):
        RunStore(store.directory).read_run()


def test_a_run_whose_run_json_is_gone_is_told_from_none(store: RunStore) -> None:
    chain(store, 2)
    with pytest.raises(StoreError, match=r"its run\.json is gone"):
        store.read_run()


# ---- durability ----------------------------------------------------------------------------------------------------


def test_everything_on_the_way_to_an_artifact_is_synced(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    monkeypatch.setattr("ares.store.store._fsync", lambda path: synced.add(path.stat().st_ino))
    ref = store.write_folder("steps/000001/x", fill)
    found = store.directory / ref.path
    wanted = [*found.rglob("*"), found, *list(found.parents)[:4]]
    assert store.directory.parent in wanted
    assert [path for path in wanted if path.stat().st_ino not in synced] == []


# ---- the lock ------------------------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from pathlib import Path
from ares.store import RunStore
with RunStore(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(store: RunStore) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the run."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.directory)],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_and_told_who_holds_the_run(store: RunStore, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(StoreError, match=f"being trained by another process .pid {holder.pid} since"), store.lock():
        pass
    # The refusal does not take the lock away from the holder.
    with pytest.raises(StoreError), store.lock():
        pass


def test_asking_whether_a_run_is_held_takes_no_lock(
    store: RunStore, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object) -> None:
        pytest.fail("a start in this moment would be refused")

    monkeypatch.setattr("fcntl.flock", locked)
    assert store.is_held()
    holder.kill()
    holder.wait()
    assert not store.is_held()
    assert not RunStore(store.directory.parent / "none").is_held()


def test_a_killed_holders_lock_is_free(store: RunStore, holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with store.lock():
        assert f"pid {os.getpid()}" in (store.directory / "lock").read_text()


def test_the_lock_is_free_after_an_error_inside_it(store: RunStore) -> None:
    with pytest.raises(Interrupted), store.lock():
        raise Interrupted
    with store.lock():
        pass


def test_two_stores_of_one_process_do_not_share_the_lock(store: RunStore) -> None:
    with store.lock(), pytest.raises(StoreError), RunStore(store.directory).lock():
        pass


def test_a_commit_file_is_json_that_people_can_read(store: RunStore) -> None:
    store.write_commit(commit(12, None))
    text = (store.directory / "steps" / "000012" / "COMMIT.json").read_text()
    assert json.loads(text)["step"] == 12
    assert len(text.splitlines()) > 5
