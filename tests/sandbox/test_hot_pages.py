"""Pages that forks copy at once: no faults there, nor in the parent, and nothing but speed depends on it."""

import ctypes
import fcntl
import mmap
import os
import resource
from collections.abc import Callable

import pytest

from sandbox import Program, SandboxPool
from sandbox.worker import candidate, hot_pages
from sandbox.worker.confinement import Confinement
from tests.sandbox.sandbox_configurations import Configuration, judge

PAGES = 300
GOOD = Program(source="def f(x): return x + 1", tests=["assert f(1) == 2"])


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


def faults_in_fork(run: Callable[[], None]) -> int:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        run()
        os.write(writer, str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before).encode())
        os._exit(0)
    os.waitpid(child, 0)
    faults = int(os.read(reader, 20))
    os.close(reader)
    os.close(writer)
    return faults


def written(pages: mmap.mmap) -> list[hot_pages.Span]:
    """Spans that a fork finds it has written when it writes these pages."""

    def trial(keep: list[int]) -> None:
        write(pages)
        out_of_the_way = [fcntl.fcntl(fd, fcntl.F_DUPFD, 6) for fd in keep]
        for number, fd in enumerate(out_of_the_way, start=4):
            os.dup2(fd, number)

    proc = hot_pages.open_proc()
    assert proc is not None
    try:
        return hot_pages.written_by(trial, proc)
    finally:
        os.close(proc)


def test_a_trial_tells_which_pages_a_fork_writes() -> None:
    pages, others = memory(), memory()
    spans = written(pages)
    assert bytes_within(spans, pages) == len(pages)
    assert bytes_within(spans, others) == 0


def test_a_fork_that_writes_held_pages_has_no_faults() -> None:
    pages = memory()
    assert faults_in_fork(lambda: write(pages)) >= PAGES
    try:
        ring = hot_pages.hold([(address(pages), len(pages))])
    except OSError as error:
        pytest.skip(f"no io_uring here: {error}")
    assert faults_in_fork(lambda: write(pages)) < PAGES // 2
    os.close(ring)


def test_the_trial_serves_all_of_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the pages that serving writes would not be among those held."""
    monkeypatch.setattr(candidate, "_REHEARSAL", "import os\ndef solve(first, second): os.write(4, b'.')")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            candidate.rehearse(Confinement(), [writer])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == 20 * b"."
    os.waitpid(child, 0)


@pytest.mark.parametrize("refused", ["io_uring_setup", "io_uring_register"])
def test_verdicts_do_not_depend_on_it(refused: str) -> None:
    wrong = Program(source="def f(x): return x", tests=["assert f(1) == 2"])
    reply = judge(Configuration("no io_uring", refuse=(refused,)), [GOOD, wrong, GOOD], num_workers=1)
    assert [verdict["error_type"] for verdict in reply["verdicts"]] == ["accepted", "wrong_answer", "accepted"]


def test_a_candidate_has_no_descriptor_of_it() -> None:
    source = "import os\ndef f():\n return [n for n in range(64) if n > 3 and is_open(n)]\n"
    source += "def is_open(n):\n try: os.fstat(n)\n except OSError: return False\n return True\n"
    with SandboxPool(num_workers=1) as pool:
        (verdict,) = pool.run([Program(source=source, tests=["assert f() == []"])])
    assert verdict.error_type == "accepted", verdict.tests[0].detail
