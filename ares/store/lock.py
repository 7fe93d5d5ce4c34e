"""A file lock: one process at a time holds a directory, and a kill releases it.

Covered: taking it, being refused, asking whether it is taken, which shares it for a moment: a start is more patient
than that. Not covered: object stores, which have no locks
(ares/store/lease.py).
"""

import fcntl
import logging
import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from ares.store.errors import StoreError
from ares.store.files import fsync

logger = logging.getLogger(__name__)
LOCK = "lock"
FLOW_RUN = "PREFECT__FLOW_RUN_ID"
"""Environment variable of a Prefect worker's processes."""
PATIENCE = 1.0
"""Seconds to wait for a lock: a process that was killed while it started another one leaves its lock, for a moment, to
that child, which drops it when it executes its program."""


def signature() -> str:
    """Who takes a run, for whoever is refused."""
    within = f", flow run {os.environ[FLOW_RUN]}" if FLOW_RUN in os.environ else ""
    return f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')} on {socket.gethostname()}{within}"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a directory, made if missing. Raises StoreError if another process holds it, and OSError.

    A process of the same flow run is waited for: it was suspended, and leaves after its phase.
    """
    with _taken(directory) as handle:
        handle.truncate(0)
        handle.write(signature())
        handle.flush()
        yield


def _taken(directory: Path) -> TextIO:
    """The lock's file, open and locked; another one if `ares gc` deleted the directory meanwhile."""
    while True:
        made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        for folder in made:
            fsync(folder.parent)
        with ExitStack() as failing:
            handle = failing.enter_context((directory / LOCK).open("a+"))
            _wait_for(handle, directory.name)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle.fileno()), os.stat(directory / LOCK)):
                    failing.pop_all()
                    return handle


def _wait_for(handle: TextIO, name: str) -> None:
    asked_until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > asked_until:
                handle.seek(0)
                holder = handle.read()
                if not _is_of_this_flow_run(holder):
                    raise StoreError(f"{name!r} is in use by another process ({holder})") from None
                logger.info("%s: waits for the process that was suspended (%s)", name, holder)
                asked_until = math.inf
        time.sleep(0.05)


def _is_of_this_flow_run(holder: str) -> bool:
    """Whether another process of this one's flow run has signed."""
    return FLOW_RUN in os.environ and os.environ[FLOW_RUN] in holder and f"pid {os.getpid()} " not in holder


def is_held(directory: Path) -> bool:
    """Whether a process holds a directory."""
    try:
        with (directory / LOCK).open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
