"""Memory that packages have left, moved into a file of no name: a fork then copies no page table for it.

For every page that a process has written, `fork` copies an entry of the page table and takes a reference, which the
fork's end gives back: 13,000 of pandas', more work than a candidate's whole life without it. Pages of a file that are
mapped privately and have not been written since are passed over: a fork finds them when it touches them. So memory is
written into a memfd and replaced by a private mapping of that, at the same addresses.

Between the two nothing may write there, and an interpreter always does. Both calls are therefore made without it: as
contexts of the C library (makecontext(3)), each of one call, linked to one another. What they return nobody sees, so
they are ones that cannot fall short: room is made before, and the copy is one of memory.

A saving of time only: where a fork that tries it does not come to its end, memory stays as it is.
"""

import contextlib
import ctypes
import errno
import gc
import mmap
import os
from collections.abc import Callable
from typing import Any

from . import kernel

_CONTEXT_BYTES, _STACK_BYTES = 8192, 4096  # ucontext_t takes 968 on x86-64 and 4,560 on aarch64
_LINK, _STACK, _SIZE = 8, 16, 32  # offsets of uc_link, uc_stack.ss_sp and uc_stack.ss_size in it
_MAP_FIXED = 0x10
_OF_THE_KERNEL = ("[stack]", "[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]")
_NOT_FORKED = frozenset(["wf", "dc", "dp"])  # emptied on fork, not copied on fork, droppable: a file loses that
_LARGE = 4 << 20
Region = tuple[int, int, int]
"""Of memory: address, bytes, protection. Whole pages."""


def move(trial: Callable[[], None], proc: int) -> bool:
    """Move all private memory that has been written. Whether it was done: a fork does it first, and then the trial.

    proc: a descriptor of /proc, which may be out of sight.
    """
    gc.collect()
    was_dumpable = kernel.prctl(kernel.PR_GET_DUMPABLE, 0) == 1
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise what is read here is root's
    try:
        regions = _written_regions(proc)
    finally:
        kernel.prctl(kernel.PR_SET_DUMPABLE, int(was_dumpable))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _replace(regions)
            trial()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status == 0:
        with contextlib.suppress(OSError):
            _replace(regions)
            return True
    return False


def _written_regions(proc: int) -> list[Region]:
    """Private memory with pages of its own, but for the stack, for what forks shall not have (the C library keeps the
    state of its random numbers so) and for large buffers that are hardly used."""
    regions: list[Region] = []
    address, size, protection, written = 0, 0, 0, 0
    with os.fdopen(os.open("self/smaps", os.O_RDONLY, dir_fd=proc)) as file:
        for line in file:  # none is kept: memory that this takes would be among what it finds
            words = line.split()
            if not words[0].endswith(":"):
                start, _, end = words[0].partition("-")
                address, size = int(start, 16), int(end, 16) - int(start, 16)
                protection = {"rw-p": mmap.PROT_READ | mmap.PROT_WRITE, "r--p": mmap.PROT_READ}.get(words[1], 0)
                protection = 0 if words[-1] in _OF_THE_KERNEL else protection
            elif words[0] == "Anonymous:":
                written = int(words[1]) << 10
            elif words[0] == "VmFlags:":
                is_used = written > 0 and (size <= _LARGE or written >= size // 2)
                if protection and is_used and _NOT_FORKED.isdisjoint(words):
                    regions.append((address, size, protection))
    return regions


def _replace(regions: list[Region]) -> None:
    """Write regions into a file and map it in their place. Raises OSError, nothing having changed."""
    file = os.memfd_create("packages")
    try:
        offset = 0
        for address, size, _ in regions:  # for room, and to see that all of it can be read
            if kernel.system_call("pwrite64", file, address, size, offset) != size:
                raise OSError(errno.ENOSPC, "memory is not written whole")
            offset += size
        with mmap.mmap(file, offset) as view:  # shared, and so no region itself
            calls: list[tuple[Any, tuple[int, ...]]] = []
            start = ctypes.addressof(ctypes.c_char.from_buffer(view))
            offset, flags = 0, mmap.MAP_PRIVATE | _MAP_FIXED
            for address, size, protection in regions:
                calls.append((kernel.libc.memcpy, (start + offset, address, size)))
                calls.append((kernel.libc.mmap64, (address, size, protection, flags, file, offset)))
                offset += size
            _one_after_another(calls)
    finally:
        os.close(file)


def _one_after_another(calls: list[tuple[Any, tuple[int, ...]]]) -> None:
    """Make calls of the C library with no code of the interpreter's between them."""
    libc, step = kernel.libc, _CONTEXT_BYTES + _STACK_BYTES
    with mmap.mmap(-1, step * (len(calls) + 1)) as area:  # shared, and so no region itself
        start = ctypes.addressof(ctypes.c_char.from_buffer(area))
        places = range(start, start + len(area), step)
        libc.makecontext.restype = None
        for (function, arguments), place, following in zip(calls, places[1:], [*places[2:], start], strict=True):
            libc.getcontext(ctypes.c_void_p(place))
            ctypes.c_uint64.from_address(place + _LINK).value = following
            ctypes.c_uint64.from_address(place + _STACK).value = place + _CONTEXT_BYTES
            ctypes.c_uint64.from_address(place + _SIZE).value = _STACK_BYTES
            words = [ctypes.c_uint64(word) for word in arguments]
            libc.makecontext(ctypes.c_void_p(place), ctypes.cast(function, ctypes.c_void_p), len(words), *words)
        libc.swapcontext(ctypes.c_void_p(start), ctypes.c_void_p(places[1]))
