"""Pages that forks copy at once: no faults there, and nothing but speed depends on it."""

import ctypes
import mmap
import os
import resource
import signal
from pathlib import Path

import pytest

from sandbox import Program, SandboxPool
from sandbox.worker import hot_pages
from tests.sandbox.sandbox_configurations import GOOD, Configuration, judge, processes_of

PAGES = 300


def memory() -> mmap.mmap:
    """Written pages of this process's own, without huge pages, where a single fault copies many."""
    pages = mmap.mmap(-1, PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    write(pages)
    return pages


def write(pages: mmap.mmap) -> None:
    for at in range(0, len(pages), mmap.PAGESIZE):
        pages[at] = 1


def address(pages: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))


def bytes_within(spans: list[hot_pages.Span], pages: mmap.mmap) -> int:
    first, last = address(pages), address(pages) + len(pages)
    return sum(max(0, min(start + size, last) - max(start, first)) for start, size in spans)


def faults_in_fork(pages: mmap.mmap) -> int:
    """Page faults of a fork that writes these pages."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        write(pages)
        os.write(writer, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode())
        os._exit(0)
    os.waitpid(child, 0)
    faults = int(os.read(reader, 20))
    os.close(reader)
    os.close(writer)
    return faults


def test_what_a_fork_has_written_is_told_from_what_it_has_not() -> None:
    pages, others = memory(), memory()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        write(pages)
        os.write(theirs, b".")
        signal.pause()
    assert os.read(ours, 1) == b"."
    proc = os.open("/proc", os.O_RDONLY)
    try:
        spans = hot_pages.written_by_fork(proc)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for fd in (proc, ours, theirs):
            os.close(fd)
    assert bytes_within(spans, pages) == len(pages)
    assert bytes_within(spans, others) == 0


def hold(pages: mmap.mmap) -> int:
    try:
        return hot_pages.hold([(address(pages), len(pages))])
    except OSError as error:
        pytest.skip(f"no io_uring here: {error}")


def test_a_fork_that_writes_held_pages_has_no_faults() -> None:
    pages = memory()
    assert faults_in_fork(pages) >= PAGES
    ring = hold(pages)
    assert faults_in_fork(pages) < PAGES // 2
    os.close(ring)


def test_a_worker_holds_what_its_candidates_write() -> None:
    """Whatever refuses it is left unsaid, so that a mistake of ours would only make programs slower."""
    os.close(hold(memory()))
    if os.getuid() != 0:
        pytest.skip("only root may look at a worker")
    with SandboxPool(num_workers=1) as pool:
        pool.run([GOOD])
        held = [os.readlink(file) for pid in processes_of(pool) for file in Path(f"/proc/{pid}/fd").iterdir()]
    assert held.count("anon_inode:[io_uring]") == 1


@pytest.mark.parametrize("refused", ["io_uring_setup", "io_uring_register"])
def test_verdicts_do_not_depend_on_it(refused: str) -> None:
    wrong = Program(source="def f(x): return x", tests=["assert f(1) == 2"])
    reply = judge(Configuration("no hot pages", refuse=(refused,)), [GOOD, wrong, GOOD], num_workers=1)
    assert [verdict["error_type"] for verdict in reply["verdicts"]] == ["accepted", "wrong_answer", "accepted"]
