"""A file lock: one process at a time holds a directory, and a kill releases it.

Covered: taking it, being refused, asking whether it is taken. Not covered: object stores, which have no locks
(ares/store/lease.py).
"""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

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
        while not _is_taken(handle):
            if time.monotonic() > asked_until:
                handle.seek(0)
                raise RunHeld(f"Run {directory.name!r} is being trained by another process ({handle.read()})")
            time.sleep(0.05)
        handle.truncate(0)
        handle.write(signature())
        handle.flush()
        yield


def _is_taken(handle: TextIO) -> bool:
    """Take the lock if it is free. Unlike flock's, such a lock can be asked for without being taken."""
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _lock_of_whole_file())
    except BlockingIOError:
        return False
    return True


def is_held(directory: Path) -> bool:
    """Whether a process of this machine holds a directory. Takes no lock, which could make a start fail."""
    try:
        with (directory / LOCK).open() as handle:
            answer = fcntl.fcntl(handle, fcntl.F_OFD_GETLK, _lock_of_whole_file())
    except FileNotFoundError:
        return False
    return int(struct.unpack_from("h", answer)[0]) != fcntl.F_UNLCK


def _lock_of_whole_file() -> bytes:
    """C's struct flock: a lock for writing."""
    return struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
