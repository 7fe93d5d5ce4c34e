"""The lock that keeps a second process out of a run directory."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from ares.store.store import RunStore, StoreError
from tests.ares.builders import REPOSITORY

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


def test_a_lock_that_a_killed_process_leaves_for_a_moment_is_waited_for(
    store: RunStore, holder: subprocess.Popen[str]
) -> None:
    """A child that it was just starting has a copy until it executes its program: a resume at once was refused."""
    threading.Timer(0.3, holder.kill).start()
    with store.lock():
        assert holder.poll() is not None or holder.wait(5) == -signal.SIGKILL


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
    with pytest.raises(RuntimeError), store.lock():
        raise RuntimeError
    with store.lock():
        pass


def test_two_stores_of_one_process_do_not_share_the_lock(store: RunStore) -> None:
    with store.lock(), pytest.raises(StoreError), RunStore(store.directory).lock():
        pass
