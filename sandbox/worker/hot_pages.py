"""Pages that every candidate writes: copied by `fork` at once, rather than at one page fault each.

A fork shares its parent's memory until it writes to it, and then a page fault costs more than the copy does. Which
pages a candidate writes (reference counts, caches, the interpreter's free memory) hardly depends on its program, so a
rehearsal tells. The kernel copies a page at the fork if something holds on to it for I/O, as the registered buffers of
an io_uring do (Linux 5.12 on); no I/O is ever asked of it.

Only speed depends on it, a fourth of a program's CPU time: where io_uring is refused, as in Docker by default, or above
RLIMIT_MEMLOCK (2 MiB for each worker, counted by user unless root), pages are copied when they are written.
"""

import array
import ctypes
import mmap
import os
from typing import TextIO

from . import kernel

_COPIED = 1 << 63 | 1 << 56  # in an entry of pagemap: present, and of one process alone
_REGISTER_BUFFERS = 0
_MAX_BUFFERS = 1024
_RING_PARAMETERS_BYTES = 120

Span = tuple[int, int]
"""Of memory: address, bytes. Whole pages."""


def written_by_fork(proc: int) -> list[Span]:
    """The caller's memory that its newest fork has written. Raises OSError.

    proc: a descriptor of /proc, which may number processes otherwise than the caller.
    """
    spans: list[Span] = []
    with _opened("thread-self/children", proc) as file:
        child = file.read().split()[-1]
    with _opened(f"{child}/pagemap", proc) as pagemap:
        for start, end in _private_memory(proc):
            size, at = 8 * (end - start) // mmap.PAGESIZE, 8 * start // mmap.PAGESIZE
            entries = array.array("Q", os.pread(pagemap.fileno(), size, at))
            copied = [number for number, entry in enumerate(entries) if entry & _COPIED == _COPIED]
            for page in (start + number * mmap.PAGESIZE for number in copied):
                first = spans.pop()[0] if spans and sum(spans[-1]) == page else page
                spans.append((first, page + mmap.PAGESIZE - first))
    return spans


def _private_memory(proc: int) -> list[tuple[int, int]]:
    """First and last address of the caller's memory that it may write and shares with no one."""
    with _opened("self/maps", proc) as file:
        lines = [line.split(maxsplit=2) for line in file.read().splitlines()]
    bounds = [addresses.split("-") for addresses, access, _ in lines if access == "rw-p"]
    return [(int(start, 16), int(end, 16)) for start, end in bounds]


def _opened(name: str, proc: int) -> TextIO:
    return os.fdopen(os.open(name, os.O_RDONLY, dir_fd=proc))


def hold(spans: list[Span]) -> int:
    """Have forks copy this memory at once, as long as the returned descriptor is open. Raises OSError."""
    parameters = ctypes.create_string_buffer(_RING_PARAMETERS_BYTES)  # struct io_uring_params, all zero
    ring = kernel.call("io_uring_setup", 1, ctypes.addressof(parameters))
    vector = array.array("Q", [word for span in spans[:_MAX_BUFFERS] for word in span])
    address, words = vector.buffer_info()
    try:
        kernel.call("io_uring_register", ring, _REGISTER_BUFFERS, address, words // 2)
    except OSError:
        os.close(ring)
        raise
    return ring
