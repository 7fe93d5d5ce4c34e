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

from . import kernel

_PRESENT, _EXCLUSIVE = 1 << 63, 1 << 56  # in an entry of pagemap; exclusive: of one process alone
_REGISTER_BUFFERS = 0
_MAX_BUFFERS = 1024
_RING_PARAMETERS_BYTES = 120

Span = tuple[int, int]
"""Of memory: address, bytes. Whole pages."""


def written_by(child: int, proc: int) -> list[Span]:
    """The caller's memory that a fork of it has written. Raises OSError.

    proc: a descriptor of /proc, which may number processes otherwise than the caller.
    """
    handle = kernel.call("pidfd_open", child, 0)
    about = dict(line.split(":") for line in _read(f"self/fdinfo/{handle}", proc).splitlines())
    os.close(handle)
    pagemap = os.open(f"{int(about['Pid'])}/pagemap", os.O_RDONLY, dir_fd=proc)
    spans: list[Span] = []
    for line in _read("self/maps", proc).splitlines():
        addresses, access, *_ = line.split(maxsplit=2)
        start, end = (int(address, 16) for address in addresses.split("-"))
        if access == "rw-p":
            size, at = 8 * (end - start) // mmap.PAGESIZE, 8 * start // mmap.PAGESIZE
            for number, entry in enumerate(array.array("Q", os.pread(pagemap, size, at))):
                page = start + number * mmap.PAGESIZE
                if entry & _PRESENT and entry & _EXCLUSIVE:
                    follows = spans and sum(spans[-1]) == page
                    first = spans.pop()[0] if follows else page
                    spans.append((first, page + mmap.PAGESIZE - first))
    os.close(pagemap)
    return spans


def _read(name: str, proc: int) -> str:
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=proc)) as file:
        return file.read()


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
