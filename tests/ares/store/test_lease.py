"""Two machines on one run in an object store: the second is refused, and one that was stopped can no longer commit.

A machine is simulated by its own cache, a stop by a lease that is not renewed or a request that stalls in the network.
"""

import logging
import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

pytest.importorskip("s3fs", reason="the extra `s3`")
pytest.importorskip("moto", reason="the extra `dev`")

from ares.store import lease
from ares.store.lease import Holder, Lease, LeaseLost
from ares.store.mirror import path_of
from ares.store.store import Commit, RunStore, StoreError
from tests.ares.store_builders import READERS, commit
from tests.object_store import Network, object_store

URL = "s3://bucket/runs"


class Machines:
    """Machines that reach the same run."""

    def __init__(self, folder: Path, network: Network, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.network, self.patch = folder, network, patch

    def __call__(self, name: str) -> RunStore:
        """The run as a process that has just started on a machine sees it."""
        self.patch.setenv("XDG_CACHE_HOME", str(self.folder / name))
        return RunStore(path_of(URL) / self.folder.name)


@pytest.fixture(scope="module")
def store_server() -> Iterator[tuple[Network, dict[str, str]]]:
    with object_store() as served:
        yield served


@pytest.fixture
def machines(
    tmp_path: Path, store_server: tuple[Network, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    network, environment = store_server
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(lease, "RENEWAL", 0.1)
    monkeypatch.setattr(lease, "SILENCE", 0.6)
    yield Machines(tmp_path, network, monkeypatch)
    network.fault = lambda method, path: None


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Writers whose machines are stopped: their leases are not renewed."""
    renew, writing = Lease._renew, threading.Lock()

    class Writers(set[str]):
        def add(self, writer: str) -> None:
            with writing:  # a renewal in progress ends before its machine stops
                super().add(writer)

    still = Writers()

    def renewed(self: Lease, released: bool = False) -> None:
        with writing:
            if self._mine.writer not in still:
                renew(self, released)

    monkeypatch.setattr(Lease, "_renew", renewed)
    return still


def begun(store: RunStore, stack: ExitStack) -> Commit:
    """A run that is held, with its first commit."""
    stack.enter_context(store.lock())
    store.write_run({"config": {}})
    first = commit(0, None)
    store.write_commit(first)
    return first


def step_of(store: RunStore, number: int, before: Commit, by: str) -> Commit:
    """A step with an artifact that says who made it."""
    ref = store.write_json(f"{store.step_path(number)}/batch.json", {"by": by})
    made = commit(number, before, artifacts={"batch": ref}, metrics={"m": float(len(by))})
    store.write_commit(made)
    return made


def test_a_second_machine_is_refused_and_told_who_holds_the_run(machines: Machines) -> None:
    holder = rf"in use by another process \(pid {os.getpid()} since .* on "
    with machines("first").lock(), pytest.raises(StoreError, match=holder), machines("second").lock():
        pytest.fail("both hold it")
    with machines("second").lock():
        pass


def test_a_run_whose_holder_died_is_taken_up_at_once_here_and_after_a_silence_elsewhere(
    machines: Machines, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Lease, "_renew", lambda self, released=False: None)
        with machines("first").lock():
            pass
        patch.setattr(Lease, "_wait_for_silence", lambda *_: pytest.fail("it waits for itself"))
        with machines("first").lock():
            pass
    with caplog.at_level(logging.WARNING), machines("second").lock():
        pass
    assert "was silent for" in caplog.text


def test_a_copied_copy_is_another_machines(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had copied a cache took the run from a process that lived: the name of a copy lies in it."""
    watched: list[Holder] = []
    monkeypatch.setattr(Lease, "_renew", lambda self, released=False: None)
    monkeypatch.setattr(Lease, "_wait_for_silence", lambda self, former: watched.append(former))
    with machines("first").lock():
        shutil.copytree(machines.folder / "first", machines.folder / "copied")
    with machines("copied").lock():
        assert len(watched) == 1
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    with machines("copied").lock():
        assert len(watched) == 2


def test_one_that_was_stopped_and_its_actor_can_write_nothing_any_more(machines: Machines, stopped: set[str]) -> None:
    batch, other = "steps/000001/batch.json", "steps/000001/x.json"
    with ExitStack() as stack:
        first = machines("first")
        bootstrap = begun(first, stack)
        actor = machines("node")
        actor.act_for(first.writer)
        actor.write_json(other, {"by": "first"})
        actor.write_json(other, {"by": "again"})
        stopped.add(first.writer)
        second = machines("second")
        stack.enter_context(second.lock())
        assert second.last_commit() == bootstrap
        theirs = step_of(second, 1, bootstrap, "second")
        ref = second.write_json(other, {"by": "second"})
        for work in (
            lambda: first.write_json(batch, {"by": "first"}),
            lambda: first.write_commit(commit(1, bootstrap)),
            lambda: first.remove(first.directory / "steps"),
            lambda: actor.write_json(other, {"by": "first"}),
        ):
            with pytest.raises(LeaseLost, match="was taken over from this process"):
                work()
        for written in (theirs.artifacts["batch"], ref):
            assert READERS["json"](machines("third"), written) == {"by": "second"}
        assert machines("third").last_commit() == theirs


@pytest.mark.parametrize("again", [False, True], ids=["a new commit", "one of a step that is done again"])
@pytest.mark.parametrize("arrives", ["before", pytest.param("after", marks=pytest.mark.slow)])
def test_a_stalled_commit_gives_way(machines: Machines, stopped: set[str], again: bool, arrives: str) -> None:
    with ExitStack() as stack:
        first = machines("first")
        bootstrap = begun(first, stack)
        if again:
            step_of(first, 1, bootstrap, "of before")
        on_its_way, goes_on = threading.Event(), threading.Event()
        stack.callback(goes_on.set)
        puts = 0

        def fault(method: str, path: str) -> None:
            nonlocal puts
            if method == "PUT" and "steps/000001/COMMIT.json" in path and not goes_on.is_set():
                puts += 1
                if puts == 1 + again:  # the first of a replacement is refused: there is one
                    on_its_way.set()
                    goes_on.wait()

        machines.network.fault = fault
        errors: list[Exception] = []

        def late() -> None:
            try:
                first.write_commit(commit(1, bootstrap, metrics={"m": 9.0}))
            except StoreError as error:
                errors.append(error)

        writing = threading.Thread(target=late)
        writing.start()
        assert on_its_way.wait(20)
        stopped.add(first.writer)
        second = machines("second")
        stack.enter_context(second.lock())
        assert second.committed_steps() == [0]
        theirs = step_of(second, 1, bootstrap, "second") if arrives == "after" else None
        goes_on.set()
        writing.join()
        assert [type(error) for error in errors] == [LeaseLost]
        theirs = theirs or step_of(second, 1, bootstrap, "second")
        assert machines("third").last_commit() == theirs


@pytest.mark.parametrize("wrong", ["lost", pytest.param("500", marks=pytest.mark.slow)])
def test_a_network_that_fails_once_of_every_request_changes_nothing(machines: Machines, wrong: str) -> None:
    seen: set[tuple[str, str]] = set()

    def fault(method: str, path: str) -> str | None:
        if method != "PUT" or (method, path) in seen:
            seen.discard((method, path))
            return None
        seen.add((method, path))
        return wrong

    machines.network.fault = fault
    first = machines("first")
    with ExitStack() as stack:
        made = [begun(first, stack)]
        for number in (1, 2):
            made.append(step_of(first, number, made[-1], "first"))
    machines.network.fault = lambda method, path: None
    third = machines("third")
    assert [third.read_commit(step) for step in third.committed_steps()] == made
    assert third.intact([ref for each in made for ref in each.artifacts.values()])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_network_does_two_machines_make_one_whole_chain(machines: Machines, seed: int) -> None:
    chance, steps = random.Random(seed), 6
    made: list[str] = []
    writing, starting = threading.Lock(), threading.Lock()

    def fault(method: str, path: str) -> str | None:
        with writing:
            drawn, pause = chance.random(), chance.uniform(0.3, 1.5)
        if drawn < 0.06:
            time.sleep(pause)  # longer than SILENCE, or shorter
        return "500" if 0.06 < drawn < 0.1 else "lost" if 0.1 < drawn < 0.14 else None

    def machine(name: str) -> None:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            with starting, suppress(StoreError):
                store = machines(name)
            try:
                with store.lock():
                    last = store.last_commit() or begun_here(store)
                    while last.step < steps:
                        last = step_of(store, last.step + 1, last, name)
                        made.append(last.digest())
                    return
            except StoreError:
                continue
        pytest.fail("it never came to its end")

    def begun_here(store: RunStore) -> Commit:
        store.write_run({"config": {}})
        first = commit(0, None)
        store.write_commit(first)
        made.append(first.digest())
        return first

    machines.network.fault = fault
    with ThreadPoolExecutor(2) as pool:
        for working in [pool.submit(machine, name) for name in ("first", "the second")]:
            working.result()
    machines.network.fault = lambda method, path: None
    third = machines("third")
    chain = [third.read_commit(step) for step in third.committed_steps()]
    assert [each.step for each in chain] == list(range(steps + 1))
    assert set(made) <= {each.digest() for each in chain}
    assert third.intact([ref for each in chain for ref in each.artifacts.values()])


def test_a_store_that_ignores_conditions_gets_a_warning(machines: Machines, caplog: pytest.LogCaptureFixture) -> None:
    machines.network.fault = lambda method, path: "unconditional"
    with caplog.at_level(logging.WARNING), machines("first").lock():
        pass
    assert "ignores the conditions of writes" in caplog.text


def test_a_store_without_a_lease_gets_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture,
                                                monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with caplog.at_level(logging.WARNING), RunStore(path_of("memory://bucket") / "run").lock():
        pass
    assert "memory://bucket/run: nothing keeps two machines from training this run at once" in caplog.text
