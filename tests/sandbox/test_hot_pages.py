"""Pages that forks copy at once: workers hold them, and nothing but speed depends on it."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from sandbox import Program, SandboxPool
from sandbox.worker import hot_pages
from tests.sandbox.sandbox_configurations import GOOD, Configuration, judge, processes_of


def test_a_worker_holds_what_its_candidates_write() -> None:
    """Whatever refuses it is left unsaid, so that a mistake of ours would only make programs slower."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    try:
        os.close(hot_pages.hold([(ctypes.addressof(ctypes.c_char.from_buffer(page)), mmap.PAGESIZE)]))
    except OSError as error:
        pytest.skip(f"no io_uring here: {error}")
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
