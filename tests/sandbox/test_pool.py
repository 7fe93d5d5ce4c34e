"""A pool: calls that end early, several at a time, lost workers, and what a closed one leaves."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from sandbox import PoolClosed, Program, SandboxPool
from sandbox.pool import Worker
from sandbox.worker import wire
from sandbox.worker_process import WorkerLost, WorkerProcess
from tests.sandbox.sandbox_configurations import GOOD, REPOSITORY, SLOW, workers_of


def lose_workers(patch: pytest.MonkeyPatch, *calls: int, seconds: float = 0.0) -> list[WorkerProcess]:
    """Have a worker lost at these calls of judge(), from 1, after some time; the workers used so far."""
    original, used = WorkerProcess.judge, []

    def judge(self: WorkerProcess, *rest: Any) -> None:
        used.append(self)
        if len(used) in calls:
            time.sleep(seconds)
            raise WorkerLost("by the test")
        original(self, *rest)

    patch.setattr(WorkerProcess, "judge", judge)
    return used


def test_a_sandbox_failure_is_retried_once_and_is_never_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    used = lose_workers(monkeypatch, 1, 3, 4)
    with SandboxPool(num_workers=1) as pool:
        assert [(v.error_type, v.pass_ratio) for v in pool.run([GOOD])] == [("accepted", 1.0)]
        assert [(v.error_type, v.pass_ratio) for v in pool.run([GOOD])] == [("internal_error", None)]
        assert len(used) == 4
        assert pool.run([GOOD])[0].error_type == "accepted"


def test_a_retry_has_a_fresh_worker_though_others_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    used = lose_workers(monkeypatch, 1, seconds=1.0)  # the other worker is free by then
    with SandboxPool(num_workers=2) as pool:
        assert {verdict.error_type for verdict in pool.run([GOOD, GOOD])} == {"accepted"}
    assert len(set(used)) == 3


def test_a_worker_that_cannot_start_does_not_starve_those_that_live(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Worker:
        raise WorkerLost("no memory")

    with SandboxPool(num_workers=2) as pool:
        pool.run([SLOW, SLOW])
        monkeypatch.setattr(pool, "_start_worker", fail)
        os.kill(pool._free[-1].pid, signal.SIGKILL)  # type: ignore[union-attr]
        assert [pool.run([GOOD])[0].error_type for _ in range(3)] == ["internal_error", "accepted", "accepted"]


ABANDONED = """
import sys
sys.path.insert(0, {repository!r})
from sandbox import Program, SandboxPool
pool = SandboxPool()
source = "import time\\ndef f(): time.sleep(0.3)"
stream = pool.stream([Program(source=source, tests=["assert f() is None"])] * 60)
next(stream)
"""


def test_a_pool_that_nobody_closed_ends_with_its_process_and_does_not_judge_all_that_waits() -> None:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", ABANDONED.format(repository=str(REPOSITORY))], check=True)
    assert time.monotonic() - started < 12  # all would take 18


NAP = Program(
    source="import time\ndef f(x): time.sleep(600)", tests=["assert f(1) == 2"] * 8, cpu_seconds=1, wall_seconds=600
)


def test_an_abandoned_stream_blocks_no_later_call() -> None:
    with SandboxPool(num_workers=1) as pool:
        stream = pool.stream([GOOD, NAP, NAP])
        assert next(stream)[1].error_type == "accepted"
        stream.close()  # type: ignore[attr-defined]
        assert pool.run([GOOD])[0].error_type == "accepted"  # otherwise it would wait for ten minutes


def test_a_call_that_has_ended_kills_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor if the judging thread is slow to continue after its last verdict, as on a busy machine."""

    def set_result(self: Future[Any], result: Any, original: Any = Future.set_result) -> None:
        original(self, result)
        time.sleep(0.2)

    monkeypatch.setattr(Future, "set_result", set_result)
    with SandboxPool(num_workers=1) as pool:
        (worker,) = workers_of(pool)
        for _ in range(2):
            assert pool.run([GOOD])[0].error_type == "accepted"
        assert workers_of(pool) == [worker]


def test_an_error_among_the_programs_leaves_nothing_in_the_queue() -> None:
    def programs() -> Iterator[Program]:
        yield NAP
        raise LookupError("no more programs")

    with SandboxPool(num_workers=1) as pool:
        with pytest.raises(LookupError):
            pool.run(programs())
        assert pool.run([GOOD])[0].error_type == "accepted"


def test_trust_and_cost_stay_with_what_a_lost_worker_had_found(monkeypatch: pytest.MonkeyPatch) -> None:
    receive, lost = wire.Frames.message, []

    def lose(self: wire.Frames) -> dict[str, Any]:
        message = receive(self)
        if len(message.get("outcomes", "none")) < 3 and not lost:
            lost.append(self)
            return {**message, "fault": "by the test", "is_done": False}
        return message

    monkeypatch.setattr(wire.Frames, "message", lose)
    source = "from time import process_time\ndef f(x):\n    end = process_time() + 0.2\n"
    source += "    while process_time() < end: pass\n    return x"
    with SandboxPool(num_workers=1) as pool:
        tests = ["assert f(lambda: 0)", "assert f(1) == 1", "assert f(2) == 2"]
        (verdict,) = pool.run([Program(source=source, tests=tests)])
    assert lost
    assert [outcome.trusted for outcome in verdict.tests] == [False, True, True]
    assert (verdict.error_type, verdict.trusted_compare) == ("accepted", False)
    assert verdict.exec_time >= 0.6


def test_closing_from_another_thread_ends_a_running_call() -> None:
    pool = SandboxPool(num_workers=1)
    threading.Timer(0.3, pool.close).start()
    with pytest.raises(PoolClosed):
        pool.run([SLOW] * 50)


def test_several_threads_get_their_own_verdicts_in_order() -> None:
    wrong: list[object] = []

    def use(pool: SandboxPool, number: int) -> None:
        programs = [
            Program(source=f"def f(): return {number * 1000 + n % 30}", tests=[f"assert f() == {number * 1000 + n}"])
            for n in range(40)
        ]
        verdicts = pool.run(programs)
        expected = ["accepted" if n < 30 else "wrong_answer" for n in range(40)]
        if [verdict.error_type for verdict in verdicts] != expected:
            wrong.append(verdicts)

    with SandboxPool(num_workers=2) as pool:
        threads = [threading.Thread(target=use, args=(pool, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    assert wrong == []


def test_a_pool_is_not_for_a_fork_of_its_process() -> None:
    with SandboxPool(num_workers=1) as pool:
        child = os.fork()
        if child == 0:
            try:
                pool.run([GOOD])
            except RuntimeError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert pool.run([GOOD])[0].error_type == "accepted"
