"""What goes wrong around the programs: nothing hangs, survives or gets lost."""

import contextlib
import gc
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from sandbox import PoolClosed, Program, SandboxPool, Verdict
from sandbox.worker.checker import Checker
from sandbox.worker.session import Session
from sandbox.worker_process import _post_mortem
from tests.sandbox.sandbox_configurations import (
    GOOD,
    REFUSED,
    REPOSITORY,
    SLOW,
    USERNS,
    Configuration,
    descendants,
    judge,
    processes_of,
    require,
    workers_of,
)


def alive(pids: set[int]) -> set[int]:
    processes = psutil.process_iter(["status"])
    return {each.pid for each in processes if each.pid in pids and each.info["status"] != psutil.STATUS_ZOMBIE}


def wait_until_gone(pids: set[int], seconds: float = 60.0) -> set[int]:
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive(pids)


def test_a_closed_pool_leaves_no_process_and_no_descriptor_though_no_collector_runs() -> None:
    gc.collect()
    before = os.listdir("/proc/self/fd")
    gc.disable()
    try:
        with SandboxPool(num_workers=2) as pool:
            pids = processes_of(pool)
            assert len(pids) >= 2
            pool.run([GOOD] * 4)
            pids |= processes_of(pool)
        assert alive(pids) == set()
        assert len(os.listdir("/proc/self/fd")) == len(before)
    finally:
        gc.enable()
    with pytest.raises(PoolClosed):
        pool.run([GOOD])


@pytest.mark.parametrize("depth", ["outermost", "all"])
def test_killed_workers_lose_no_verdict(depth: str) -> None:
    with SandboxPool(num_workers=2) as pool:
        stream = pool.stream([SLOW] * 8)
        verdicts = dict([next(stream)])
        while len(workers := workers_of(pool)) < 2:
            time.sleep(0.01)
        for worker in workers:
            pids = [worker.pid] if depth == "outermost" else [worker.pid, *descendants(worker.pid)]  # type: ignore[attr-defined]
            for number in (signal.SIGSTOP, signal.SIGKILL):  # at once: none lives to report the death of another
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
        verdicts.update(stream)
        assert sorted(verdicts) == list(range(8))
        assert {verdict.error_type for verdict in verdicts.values()} == {"accepted"}


def test_a_checker_that_its_own_test_exhausts_keeps_the_other_verdicts() -> None:
    tests = ["assert f(1) == 2", "assert len(str(7 ** (10 ** 7 + f(1)))) == 1", "assert f(2) == 3"]
    with SandboxPool(num_workers=1) as pool:
        (verdict,) = pool.run([Program(source=GOOD.source, tests=tests, cpu_seconds=0.5)])
    assert [outcome.verdict for outcome in verdict.tests] == ["accepted", "timeout", "accepted"]


def test_a_checker_killed_from_outside_is_our_failure_and_out_of_memory_is_the_tests() -> None:
    def outcome(peak_rss: int) -> str:
        died = {"status": signal.SIGKILL, "test": 3, "peak_rss": peak_rss, "cpu": 0.0}
        return _post_mortem(died, 512 << 20)[1].verdict

    assert [outcome(20 << 20), outcome(400 << 20)] == ["internal_error", "memory"]


@pytest.mark.parametrize("error", [ValueError(10**5000), RecursionError(), TypeError("x"), OSError(28, "no space")])
def test_what_goes_wrong_in_judging_is_the_programs_failure_but_for_what_fails_on_the_machine(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Checker, plan: dict[str, Any]) -> tuple[str, float, str]:
        raise error

    monkeypatch.setattr(Checker, "_judge_test", fail)
    job = {"plans": [{"error": "", "apart": True}], "stdin_tests": [], "fresh_per_test": False, "order": [0]}
    job |= {"source": "", "timeouts": 0, "spent": [0.0, 0.0]}
    checker = Checker(job, None, None)  # type: ignore[arg-type]
    if isinstance(error, OSError):
        with pytest.raises(OSError, match="no space"):
            checker._judge(0)
    else:
        outcome, _, detail = checker._judge(0)
        assert outcome == "runtime_error"
        assert detail.startswith(f"it cannot be judged: {type(error).__name__}")


def test_checkers_of_outputs_leave_no_descriptors_to_the_tests_and_programs_after_them() -> None:
    """A checker process may have 64."""
    script = Program(
        source="print(input())",
        stdin_tests=[(str(number), "") for number in range(40)],
        checker="def check(input, expected, output): return output.strip() == input",
    )
    with SandboxPool(num_workers=1) as pool:
        assert [verdict.pass_ratio for verdict in pool.run([script, script, GOOD])] == [1.0, 1.0, 1.0]


def test_descriptors_that_get_lost_are_a_fault_of_the_machine() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        socket.send_fds(theirs, [marshal.dumps(7)], [0])
        with pytest.raises(OSError, match="too many open"):
            Session(ours, 1.0, 1.0, 1 << 20)


SPAWN = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in its background without it
sys.path.insert(0, {repository!r})
from sandbox import Program, SandboxPool
pool = SandboxPool(num_workers=2)
print("ready", flush=True)
try:
    with pool:
        pool.run([Program(source="def f():\\n while True: pass", tests=["assert f()"] * 4, cpu_seconds=5)] * 20)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def start_pool_process() -> tuple["subprocess.Popen[str]", set[int]]:
    script = SPAWN.format(repository=str(REPOSITORY))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    pids = descendants(process.pid)
    assert len(pids) >= 2
    return process, pids


def test_when_memory_runs_out_the_kernel_ends_programs_first() -> None:
    with SandboxPool() as pool:
        scores = {Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in processes_of(pool)}
    assert scores == {"1000\n"}


def test_a_killed_pool_leaves_no_process() -> None:
    process, pids = start_pool_process()
    process.kill()
    process.wait()
    assert wait_until_gone(pids) == set()


def test_ctrl_c_ends_the_call_and_all_workers() -> None:
    process, pids = start_pool_process()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)  # the programs would take 800 seconds of CPU
    assert output == "interrupted\n"
    assert wait_until_gone(pids) == set()


def lasting(pool: SandboxPool) -> set[int]:
    """Processes of a one-worker pool that survive from program to program: all but candidates."""
    seen = []
    for _ in range(3):
        assert pool.run([GOOD])[0].error_type == "accepted"
        seen.append(processes_of(pool))
    return set.intersection(*seen)


def judge_while(pool: SandboxPool, harm: Callable[[], None]) -> Verdict:
    """The verdict of a slow program, with `harm` done again and again until it is there."""
    with ThreadPoolExecutor(1) as threads:
        judging = threads.submit(pool.run, [SLOW])
        while not judging.done():
            time.sleep(0.1)  # so that the program sleeps
            harm()
    (verdict,) = judging.result()
    return verdict


@pytest.mark.parametrize(("kills", "expected"), [(1, "accepted"), (100, "runtime_error")])
def test_a_candidate_that_something_outside_kills_is_run_again_and_never_without_a_score(
    kills: int, expected: str
) -> None:
    chances = iter(range(kills))
    with SandboxPool(num_workers=1) as pool:
        stay = lasting(pool)

        def kill_candidates() -> None:
            for pid in processes_of(pool) - stay if next(chances, None) is not None else ():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        assert judge_while(pool, kill_candidates).error_type == expected


@pytest.mark.parametrize(("crashes", "expected"), [(1, "accepted"), (100, "runtime_error")])
def test_a_checker_that_crashes_is_no_program_without_a_score(crashes: int, expected: str) -> None:
    """Once, it may be what an earlier program left there; twice, it is this program's answer."""
    chances = iter(range(crashes))
    with SandboxPool(num_workers=1) as pool:
        if "namespaces" not in pool.isolation:
            pytest.skip("without PID namespaces no checker can be told from a candidate")
        lasting(pool)

        def crash_checkers() -> None:
            for pid in processes_of(pool):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    is_checker = "Seccomp:\t2" in (status := Path(f"/proc/{pid}/status").read_text())
                    # A candidate is the first process of a namespace below the checker's.
                    is_checker &= len(status.partition("NSpid:")[2].splitlines()[0].split()) == 2
                    if is_checker and next(chances, None) is not None:
                        os.kill(pid, signal.SIGSEGV)

        verdict = judge_while(pool, crash_checkers)
    assert (verdict.error_type, verdict.pass_ratio is None) == (expected, False)


def test_a_timeout_ends_at_its_limit() -> None:
    spin = Program(source="def f():\n while True: pass", tests=["assert f()"], cpu_seconds=0.5, wall_seconds=60)
    nap = Program(source="import time\ndef f(): time.sleep(60)", tests=["assert f()"], cpu_seconds=0.5, wall_seconds=1)
    with SandboxPool(num_workers=1) as pool:
        spinning, sleeping = pool.run([spin, nap])
    assert spinning.error_type == sleeping.error_type == "timeout"
    assert spinning.tests[0].cpu >= 0.5  # how close to the limits it ends is the benchmark's to say
    assert [spinning.tests[0].detail, sleeping.tests[0].detail] == [
        "more than 0.5 s of CPU time",
        "more than 1 s of wall time",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("configuration", [USERNS, REFUSED], ids=lambda c: c.name)
def test_ten_thousand_programs_unprivileged(configuration: Configuration) -> None:
    require(configuration)
    reply = judge(configuration, [GOOD] * 10_000)
    assert {verdict["error_type"] for verdict in reply["verdicts"]} == {"accepted"}


@pytest.mark.slow
def test_ten_thousand_programs_leave_memory_and_descriptors_flat() -> None:
    def footprint(pool: SandboxPool) -> tuple[int, int]:
        """(resident pages, open files) of the pool and of its workers' lasting processes."""
        pages = files = 0
        for pid in (os.getpid(), *processes_of(pool)):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            files += len(os.listdir(f"/proc/{pid}/fd"))
        return pages, files

    kinds = [
        GOOD,
        Program(source="def f(x): return [0] * 10**5", tests=["assert f(1) == 2"]),
        Program(source="import os\nos._exit(3)", tests=["assert f(1) == 2"]),
        Program(
            source="open('/tmp/x', 'w').write('x' * 10**5)\ndef f(x): return x", tests=["import re\nassert f(1) == 1"]
        ),
    ]
    with SandboxPool(num_workers=2) as pool:
        pool.run(kinds * 100)
        before = footprint(pool)
        verdicts = pool.run(kinds * 2500)
        after = footprint(pool)
    expected = ["accepted", "wrong_answer", "runtime_error", "accepted"]
    assert [verdict.error_type for verdict in verdicts] == expected * 2500
    verdict_pages = 10_000 * 4096 // 4096  # the verdicts themselves: at most a page each
    assert after[0] - before[0] < 5000 + verdict_pages
    assert after[1] <= before[1] + 20  # each of two workers may, or may not, have a checker and a candidate waiting
