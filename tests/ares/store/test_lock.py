"""The lock that keeps a second process out of a run directory."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress

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


def test_a_second_process_is_refused_until_the_first_is_killed(store: RunStore) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.directory)],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for _ in range(2):  # the refusal does not take the lock away from the holder
            told = f"in use by another process .pid {holder.pid} since"
            with pytest.raises(StoreError, match=told), store.lock():
                pass
        assert store.is_held()
        # A child that a killed process was just starting has a copy of its lock until it executes its program.
        threading.Timer(0.3, holder.kill).start()
        with store.lock():
            assert holder.wait(5) == -signal.SIGKILL
            assert f"pid {os.getpid()}" in (store.directory / "lock").read_text()
    finally:
        holder.kill()
        holder.communicate()


def test_a_process_of_a_flow_run_waits_for_the_suspended_one(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resume, before the phase in flight had ended, began another process, and its refusal failed the flow run."""
    monkeypatch.setattr("ares.store.lock.PATIENCE", 0.1)
    with ExitStack() as first:
        first.enter_context(RunStore(store.directory).lock())
        (store.directory / "lock").write_text("pid 1 since yesterday on a machine, flow run one")
        monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "another")
        with pytest.raises(StoreError, match="flow run one"), store.lock():
            pass
        monkeypatch.setenv("PREFECT__FLOW_RUN_ID", "one")
        threading.Timer(0.5, first.close).start()
        with store.lock():
            signed = (store.directory / "lock").read_text()
    assert f"pid {os.getpid()} " in signed
    assert signed.endswith("flow run one")


def test_a_lock_whose_directory_was_deleted_meanwhile_is_taken_anew(store: RunStore) -> None:
    """Two processes wrote the run: one held the deleted file, the other a new one."""
    with ExitStack() as first:
        first.enter_context(RunStore(store.directory).lock())
        threading.Timer(0.2, lambda: (shutil.rmtree(store.directory), first.close())).start()
        with store.lock():
            assert store.is_held()
            with pytest.raises(StoreError), RunStore(store.directory).lock():
                pass


def test_the_lock_is_free_after_an_error_inside_it_and_asking_takes_none(store: RunStore) -> None:
    assert not store.is_held()
    with suppress(RuntimeError), store.lock():
        assert store.is_held()
        with pytest.raises(StoreError), RunStore(store.directory).lock():  # not even in the same process
            pass
        raise RuntimeError
    assert not store.is_held()
    with store.lock():
        pass
