"""Run directories at a URL: what one machine wrote, another reads; failures are reported and lose nothing.

The place is a folder reached by file://; a machine is simulated by its own cache.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ares.runs.retention import prune
from ares.store import Kept, runs_directory
from ares.store.mirror import path_of
from ares.store.store import Commit, Ref, RunStore, StoreError
from flows.cli.main import app
from tests.ares.store_builders import KINDS, READERS, WRITERS, chain, commit


class World:
    """A place for runs, and machines that reach it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch
        self.place = folder / "place"
        self.place.mkdir()
        self.url = f"file://{self.place}"

    def store(self, machine: str = "first", name: str = "run") -> RunStore:
        """The run as a process that has just started on a machine sees it."""
        self.monkeypatch.setenv("XDG_CACHE_HOME", str(self.folder / machine))
        return RunStore(path_of(self.url) / name)

    def there(self, name: str = "run") -> list[str]:
        """Files of the run at the URL."""
        run = self.place / name
        return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def content(path: Path) -> dict[str, bytes]:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def finished(store: RunStore, steps: int) -> list[Commit]:
    """A run of that many steps, each with rows, every second one with a checkpoint."""

    def made(step: int) -> dict[str, Any]:
        artifacts = {"batch": store.write_json(f"{store.step_path(step)}/batch.json", {"step": step})}
        if step and step % 2 == 0:
            artifacts["checkpoint"] = store.write_json(f"checkpoints/{step:06d}", {"weights": step})
        return {"artifacts": artifacts}

    store.write_run({"config": {}})
    return chain(store, steps, made)


# ---- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["file:///mnt/shared/runs", "memory://bucket/runs", "memory://bucket"])
def test_the_copy_of_a_url_knows_what_it_is_a_copy_of(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARES_RUNS", f"{url}/")
    assert RunStore(runs_directory() / "first").address == f"{url}/first"
    monkeypatch.setenv("ARES_RUNS", str(runs_directory()))  # as `ares up` hands it to its worker
    assert RunStore(runs_directory() / "first").address == f"{url}/first"
    monkeypatch.setenv("ARES_RUNS", "some/runs")
    assert runs_directory() == Path("some/runs")
    assert RunStore(runs_directory() / "first").mirror is None


@pytest.mark.parametrize("url", ["s3://", "file:///", "file:///mnt/../etc", "s3://bucket//runs"])
def test_what_names_no_directory_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="not the URL of a directory"):
        path_of(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    """It was in the name of the copy's folder, and in every message."""
    assert path_of("ftp://me@host/runs").parts[-2:] == ("me@host", "runs")
    with pytest.raises(StoreError, match=r"^ftp://host/runs: .* set FSSPEC_FTP_PASSWORD instead$"):
        path_of("ftp://me:secret@host/runs")
    with pytest.raises(StoreError, match=r"^nothing://bucket/run: cannot be used: Protocol not known"):
        RunStore(path_of("nothing://bucket") / "run")


# ---- artifacts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_machine_wrote_another_reads(kind: str, world: World) -> None:
    first, second = world.store("first"), world.store("second")
    ref = WRITERS[kind](first, "steps/000001/x")
    assert not second.directory.exists()
    READERS[kind](second, ref)
    assert content(second.directory / ref.path) == content(first.directory / ref.path)
    assert content(world.place / "run" / ref.path) == content(first.directory / ref.path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_copy_is_replaced_by_what_was_written(kind: str, world: World) -> None:
    store = world.store()
    ref = WRITERS[kind](store, "x")
    before = content(store.directory / "x")
    for file in [file for file in (store.directory / "x").rglob("*") if file.is_file()] or [store.directory / "x"]:
        file.write_bytes(b"damage")
    assert store.intact([ref])
    assert content(store.directory / "x") == before


def test_a_folder_written_again_leaves_nothing_of_the_one_before(world: World) -> None:
    store = world.store()
    store.write_folder("x", lambda folder: (folder / "old").write_text("1") and None)
    ref = store.write_folder("x", lambda folder: (folder / "new").write_text("2") and None)
    assert world.there() == ["x/new"]
    assert [file.name for file in world.store("second").path(ref).iterdir()] == ["new"]


def test_what_is_discarded_is_gone_at_the_url(world: World) -> None:
    store = world.store()
    refs = [WRITERS[kind](store, kind) for kind in KINDS]
    for ref in refs:
        store.discard(ref)
        store.discard(ref)  # a second time it is no error
    assert world.there() == []
    assert not any(world.store("second").intact([ref]) for ref in refs)


def test_what_phases_have_found_on_one_machine_another_finds(world: World) -> None:
    """It stayed in the copy: another machine did the whole step in flight again."""
    first, second = world.store("first"), world.store("second")
    ref = first.write_json("steps/000003/rollout.json", {"by": "first"})
    first.memo(3).keep(Kept("a", "rollout", {"rows": ref.model_dump()}))
    found = second.memo(3).find("a")
    assert found == {"rows": ref.model_dump()}
    assert second.intact(Kept("a", "rollout", found).refs())
    # It does the phase again, as on a GPU with another result of the same size, and the next one.
    other = second.write_json("steps/000003/rollout.json", {"by": "other"})
    for key in "ab":
        second.memo(3).keep(Kept(key, "rollout", {"rows": other.model_dump()}))
    for machine in ("first", "third"):
        store = world.store(machine)
        assert [store.memo(3).find(key) for key in "abc"] == [{"rows": other.model_dump()}] * 2 + [None]
        assert READERS["json"](store, other) == {"by": "other"}


def test_looking_at_a_run_that_this_machine_trains_leaves_what_its_phases_have_found(world: World) -> None:
    """`ares verify` between a line and its upload deleted the file, or put the shorter one in its place."""
    store, seen = world.store(), []
    with store.lock():
        memo = store.memo(1)
        memo._written = lambda path: seen.append(world.store().memo(1).texts)
        for key in "ab":
            memo.keep(Kept(key, "rollout", {}))
    assert seen == [memo.texts[:1], memo.texts]


# ---- runs ----------------------------------------------------------------------------------------------------------


def test_a_run_resumes_from_its_last_commit_without_a_local_copy(world: World) -> None:
    commits = finished(world.store("first"), 5)
    shutil.rmtree(world.folder / "first")
    for machine in ("first", "second"):
        store = world.store(machine)
        assert store.exists()
        assert store.read_run() == {"config": {}}
        assert [store.read_commit(step) for step in store.committed_steps()] == commits
        assert store.last_commit() == commits[-1]
        assert store.intact([ref for each in commits for ref in each.artifacts.values()])


def test_what_other_machines_did_since_is_seen_when_a_run_is_opened(world: World) -> None:
    commits = finished(world.store("first"), 2)
    second = world.store("second")
    assert second.last_commit() == commits[1]
    # Step 1 again (another result, of the same size), and one more.
    again = commit(1, commits[0], metrics={"m": 0.6})
    second.write_commit(again)
    second.write_commit(commit(2, again))
    assert world.store("first").read_commit(1) == again
    assert world.store("first").committed_steps() == [0, 1, 2]


def test_a_run_that_was_deleted_at_the_url_is_not_brought_back_by_a_copy(world: World) -> None:
    finished(world.store(), 2)
    shutil.rmtree(world.place / "run")
    store = world.store()
    assert not store.exists()
    assert store.committed_steps() == []
    with pytest.raises(StoreError, match=f"There is no run 'run' in {world.url}/run"):
        store.read_run()


@pytest.mark.parametrize("name", ["run.json", "steps/000001/COMMIT.json"])
def test_what_a_power_failure_left_replaces_nothing(name: str, world: World, caplog: pytest.LogCaptureFixture) -> None:
    finished(world.store(), 2)
    (world.place / "run" / name).write_text("")
    assert world.store().committed_steps() == [0, 1]
    assert world.store().read_run() == {"config": {}}
    assert f"{world.url}/run/{name} is damaged there" in caplog.text


def test_a_full_disk_is_told_as_one_at_a_url_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice was to check the address, the credentials and the network."""

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    store = world.store()
    monkeypatch.setattr("fsspec.implementations.local.LocalFileSystem.put_file", fails)
    with pytest.raises(StoreError, match=r"run/a\.json: cannot be written: .*\. The disk is full: free some space"):
        store.write_json("a.json", {})


def test_a_file_is_on_disk_before_it_has_its_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("ares.store.mirror.fsync", synced.append)
    world.store().write_json("a.json", {})
    partial, folder = synced
    assert (partial.parent, partial.suffix, folder) == (world.place / "run", ".partial", world.place / "run")


def test_looking_at_a_run_that_this_machine_trains_leaves_its_copy_alone(world: World) -> None:
    store = world.store()
    finished(store, 2)
    with store.lock():
        shutil.rmtree(world.place / "run")  # nothing is asked there
        assert world.store().committed_steps() == [0, 1]


def test_a_step_whose_commit_could_not_be_uploaded_is_not_committed(world: World) -> None:
    store = world.store()
    commits = finished(store, 2)
    assert store.committed_steps() == [0, 1]
    ref = store.write_json("steps/000002/batch.json", {})
    away = world.folder / "away"
    world.place.rename(away)
    world.place.write_text("a file where the folder was")
    with pytest.raises(StoreError, match=f"{world.url}/run/steps/000002/COMMIT.json: cannot be written: .*same comm"):
        store.write_commit(commit(2, commits[1], artifacts={"batch": ref}))
    with pytest.raises(StoreError, match=f"{world.url}/run/steps/000002/x: cannot be written"):
        store.write_json("steps/000002/x", {})
    assert store.committed_steps() == [0, 1]
    world.place.unlink()
    away.rename(world.place)
    assert world.store("second").last_commit() == commits[1]
    store.write_commit(commit(2, commits[1], artifacts={"batch": ref}))
    assert world.store("second").committed_steps() == [0, 1, 2]
    assert not [path for path in world.there() if "partial" in path]


def test_a_second_machine_at_a_file_system_is_refused_and_told_who_holds_the_run(world: World) -> None:
    holder = r"in use by another process \(pid \d+ since .* on "
    with world.store("first").lock(), pytest.raises(StoreError, match=holder), world.store("second").lock():
        pytest.fail("both hold it")
    with world.store("second").lock():
        pass


def test_gc_deletes_at_the_url_what_no_run_needs(world: World) -> None:
    commits = finished(world.store("first"), 5)
    first = world.store("first")
    first.discard(Ref(path="checkpoints/000002", sha256="", bytes=0))
    (world.place / "run" / ".1-2-3.partial").write_text("of a killed upload")
    second = world.store("second")
    planned = prune(second, dry_run=True)
    gone = [".1-2-3.partial", *(f"steps/{step:06d}/batch.json" for step in (1, 2, 3))]
    assert sorted(str(path.relative_to(second.directory)) for path in planned) == gone
    assert sum(planned.values()) == 18 + sum(commits[step].artifacts["batch"].bytes for step in (1, 2, 3))
    before = world.there()
    assert prune(second, dry_run=False) == planned
    assert world.there() == [path for path in before if path not in gone]
    assert world.store("third").last_commit() == commits[-1]


def test_gc_of_all_runs_passes_by_the_files_that_lie_beside_their_copies(world: World) -> None:
    """MLflow's database does. Its lock was looked for, as if it were a run's folder: NotADirectoryError."""
    store = world.store()
    finished(store, 5)
    (store.directory.parent / "mlflow.db").write_text("database")
    world.monkeypatch.setenv("ARES_RUNS", world.url)
    told = CliRunner().invoke(app, ["gc", "--dry-run"], catch_exceptions=False).stdout.splitlines()
    assert told[-1].startswith("would free ")
    assert [line for line in told if line.startswith("run: ")]


def test_a_run_that_was_put_together_here_is_published_whole(world: World) -> None:
    finished(world.store(), 3)
    made = RunStore(path_of(world.url) / ".other.1.partial")
    chain(made, 2)
    made.write_run({"config": {}})
    assert sorted(path.name for path in world.place.iterdir()) == ["run"]
    made.directory.rename(path_of(world.url) / "other")
    world.store(name="other").publish()
    assert world.there("other") == ["bootstrap/COMMIT.json", "lock", "run.json", "steps/000001/COMMIT.json"]
    assert world.store("second", "other").committed_steps() == [0, 1]
