"""Moves memory that packages have written into an unnamed file: a fork then copies no page table for it.

For every page that a process has written, `fork` copies a page-table entry and takes a reference, which is dropped when
the fork ends: 13,000 with pandas, more work than a candidate's whole life without it. Privately mapped pages of a file
that have not been written since are skipped: a fork maps them when it touches them. So memory is written into a memfd
and replaced by a private mapping of it, at the same addresses.

Between the two nothing may write there, and an interpreter always does. Both calls are therefore made without it: as a
chain of contexts of the C library (makecontext(3)), of one call each. Nothing checks what they return, so they must not
fail: room is reserved before, and the copy is within memory.

This only saves time: if a fork that tries it does not finish, memory stays as it is.
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
_NOT_FORKED = frozenset(["wf", "dc", "dp"])  # wiped on fork, not copied on fork, droppable: lost in a file
_LARGE = 4 << 20
Region = tuple[int, int, int]
"""Of memory: address, bytes, protection. Whole pages."""


def move(trial: Callable[[], None], proc: int) -> bool:
    """Move all private memory that has been written, if a fork can do so and then run the trial. Whether it was moved.

    proc: a descriptor of /proc, which may no longer be visible.
    """
    gc.collect()
    was_dumpable = kernel.prctl(kernel.PR_GET_DUMPABLE, 0) == 1
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise root owns what is read here
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
    """Private memory with pages of its own, except the stack, what forks must not inherit (such as the state of the C
    library's random numbers) and large buffers that are hardly used."""
    regions: list[Region] = []
    address, size, protection, written = 0, 0, 0, 0
    with os.fdopen(os.open("self/smaps", os.O_RDONLY, dir_fd=proc)) as file:
        for line in file:  # none is kept: the memory for that would be among what is found
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
    """Write regions into a file and map it in their place. Raises OSError with nothing changed."""
    file = os.memfd_create("packages")
    try:
        offset = 0
        for address, size, _ in regions:  # reserves room, and shows that all of it can be read
            if kernel.system_call("pwrite64", file, address, size, offset) != size:
                raise OSError(errno.ENOSPC, "memory was not written in full")
            offset += size
        with mmap.mmap(file, offset) as view:  # shared, and so not a region itself
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
    """Make calls of the C library with no interpreter code between them."""
    libc, step = kernel.libc, _CONTEXT_BYTES + _STACK_BYTES
    with mmap.mmap(-1, step * (len(calls) + 1)) as area:  # shared, and so not a region itself
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
