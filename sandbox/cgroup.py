"""A memory cgroup per worker, if this process may make one: a backstop for memory that RLIMIT_AS does not count.

RLIMIT_AS already bounds the one process a program has. What it misses is kernel memory spent on its behalf: pages of
/tmp and of the files that catch its output, page tables, pipes.
"""

import errno
import itertools
import os
import time
from pathlib import Path
from typing import Self

_OVERHEAD_BYTES = 768 << 20  # zygote, checker, /tmp and output files
_NAME = "ares-sandbox"
_serial = itertools.count()


def _parent() -> tuple[Path, str]:
    """The folder of this process's own memory cgroup, and the name of the file with the limit, on version 1 or 2."""
    unified = None
    with open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                return Path("/sys/fs/cgroup/memory") / path.lstrip("/"), "memory.limit_in_bytes"
            if not controllers:
                unified = Path("/sys/fs/cgroup") / path.lstrip("/")
    if unified is None:
        raise FileNotFoundError(errno.ENOENT, "no memory cgroup", "/proc/self/cgroup")
    return unified, "memory.max"


class MemoryCgroup:
    """A memory cgroup of one worker."""

    def __init__(self, folder: Path, limit_name: str) -> None:
        self._folder = folder
        self._limit_file = folder / limit_name
        self._limit = 0

    @classmethod
    def create(cls, pid: int) -> Self:
        """Make a cgroup and move a process, with all it will fork, into it. Raises OSError if that is not allowed."""
        parent, limit_name = _parent()
        _remove_stale(parent)
        folder = parent / f"{_NAME}-{os.getpid()}-{next(_serial)}"
        folder.mkdir()
        group = cls(folder, limit_name)
        try:
            if not group._limit_file.exists():
                raise OSError(errno.ENOTSUP, "the memory controller is not delegated", str(parent))
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            group.remove()
            raise
        return group

    def limit(self, program_bytes: int) -> None:
        """Set the limit for a program that may use this many bytes."""
        limit = program_bytes + _OVERHEAD_BYTES
        if limit != self._limit:
            self._limit_file.write_text(str(limit))
            self._limit = limit

    def remove(self) -> None:
        """Remove the cgroup of a worker that has ended; its last processes may still be exiting."""
        for _ in range(100):
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                time.sleep(0.01)
            else:
                return


def _remove_stale(parent: Path) -> None:
    """Remove what killed pools left behind: empty cgroups named after processes that no longer exist."""
    for folder in parent.glob(f"{_NAME}-*-*"):
        owner = folder.name.split("-")[2]
        if not Path("/proc", owner).exists():
            try:
                folder.rmdir()
            except OSError as error:
                if error.errno not in (errno.EBUSY, errno.ENOENT):
                    raise
