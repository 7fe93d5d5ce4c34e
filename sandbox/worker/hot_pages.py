"""Has `fork` copy the pages that every candidate writes at once, rather than at one page fault each.

A forked process shares its parent's memory until it writes to it, and then a page fault costs about twice what a copy
does. Which pages a candidate writes (reference counts, caches, the interpreter's free memory) hardly depends on its
program, so a trial shows them. The kernel copies a page at the fork if it is pinned for I/O, as the registered buffers
of an io_uring are (Linux 5.12 on); no I/O is ever requested. The parent's page also stays its own, so that the parent
has no fault either when it next writes there.

This only saves time: without io_uring, or above RLIMIT_MEMLOCK (2 MiB for each worker, counted per user unless root),
pages are copied when they are written.
"""

import array
import ctypes
import mmap
import os
from collections.abc import Callable

from . import kernel

# Bits of a pagemap entry. Exclusive: mapped by this process alone. Of a file: not written here, so nothing to copy.
_PRESENT, _OF_FILE, _EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56
_IORING_REGISTER_BUFFERS = 0
_MAX_BUFFERS = 1024
_URING_PARAMS_BYTES = 120

Span = tuple[int, int]
"""Of memory: address, bytes. Whole pages."""


def open_proc() -> int | None:
    """A descriptor of /proc, for when it is no longer visible; None if there is none."""
    try:
        return os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None


def written_by(trial: Callable[[list[int]], None], proc: int) -> list[Span]:
    """The caller's memory that a fork of it writes in a trial; nothing if the trial fails.

    The trial may close all descriptors but those it is given, which it leaves as 4, 5, …
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise root owns these files
            spans = _private_memory(proc)
            pagemap = os.open("self/pagemap", os.O_RDONLY, dir_fd=proc)
            trial([writer, pagemap])
            os.write(4, _written_pages(spans, 5).tobytes())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        pages = array.array("Q", pipe.read())
    os.waitpid(child, 0)
    joined: list[Span] = []
    for page in pages:
        if joined and sum(joined[-1]) == page:
            joined[-1] = joined[-1][0], joined[-1][1] + mmap.PAGESIZE
        else:
            joined.append((page, mmap.PAGESIZE))
    return joined


def _private_memory(proc: int) -> list[Span]:
    with os.fdopen(os.open("self/maps", os.O_RDONLY, dir_fd=proc)) as maps:
        lines = [line.split(maxsplit=2) for line in maps]
    bounds = [[int(address, 16) for address in span.split("-")] for span, access, _ in lines if access == "rw-p"]
    return [(start, end - start) for start, end in bounds]


def _written_pages(spans: list[Span], pagemap: int) -> "array.array[int]":
    pages = array.array("Q")
    for start, size in spans:
        entries = array.array("Q", os.pread(pagemap, 8 * size // mmap.PAGESIZE, 8 * start // mmap.PAGESIZE))
        flags = _PRESENT | _EXCLUSIVE
        states = ((at, entry & (flags | _OF_FILE)) for at, entry in enumerate(entries))
        pages.extend(start + at * mmap.PAGESIZE for at, state in states if state == flags)
    return pages


def hold(spans: list[Span]) -> int:
    """Have forks copy this memory at once, as long as the returned descriptor is open. Raises OSError."""
    parameters = ctypes.create_string_buffer(_URING_PARAMS_BYTES)  # struct io_uring_params, all zero
    ring = kernel.system_call("io_uring_setup", 1, ctypes.addressof(parameters))
    vector = array.array("Q", [word for span in spans[:_MAX_BUFFERS] for word in span])
    address, words = vector.buffer_info()
    try:
        kernel.system_call("io_uring_register", ring, _IORING_REGISTER_BUFFERS, address, words // 2)
    except OSError:
        os.close(ring)
        raise
    return ring
