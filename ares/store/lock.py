"""A file lock: one process at a time holds a directory, and a kill releases it.

Covered: taking it, being refused, asking whether it is taken, which shares it for a moment: a start is more patient
than that. Not covered: object stores, which have no locks
(ares/store/lease.py).
"""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ares.store.errors import RunHeld
from ares.store.files import fsync

LOCK = "lock"
PATIENCE = 1.0
"""Seconds to wait for a lock: a process that was killed while it started another one leaves its lock, for a moment, to
that child, which drops it when it executes its program."""


def signature() -> str:
    """Who takes a run, for whoever is refused."""
    return f"pid {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')} on {socket.gethostname()}"


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a directory, made if missing. Raises RunHeld if another process holds it, and OSError."""
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for folder in made:
        fsync(folder.parent)
    with (directory / LOCK).open("a+") as handle:
        asked_until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > asked_until:
                    handle.seek(0)
                    told = f"Run {directory.name!r} is being trained by another process ({handle.read()})"
                    raise RunHeld(told) from None
            time.sleep(0.05)
        handle.truncate(0)
        handle.write(signature())
        handle.flush()
        yield


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
