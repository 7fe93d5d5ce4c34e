"""The checker process: has the tests of a program, runs them in its own globals and judges.

It is trusted, but confined all the same: what it decodes came from a candidate. Its own CPU time is limited by a
profiling timer whose default action ends the process, so not even a comparison that never returns to Python can hang
it; the pool then sends the rest of the tests to a new checker.

A checker goes on to the next program only while all that it ran were plain asserts, which leave no trace in it (no
import, no definition, no attribute set, no module named). Nothing is ever forked from a checker.
"""

import builtins
import importlib
import mmap
import os
import random
import signal
import socket
import struct
import sys
import time
import traceback
import zlib
from typing import Any

from . import proxies, wire
from .confinement import Confinement
from .outputs import same_output
from .session import MAX_OUTPUT_BYTES, CandidateFailed, Session, Zygote
from .texts import MODULES, Setup, Test, leaves_no_trace

MAX_TIMEOUTS = 8  # after so many, the program's other tests count as timed out without being run
_FLUSH_SECONDS = 0.02
_JOB, _CONTROL = 3, 4  # their numbers among the descriptors that stay open
_CHECKER_MEMORY_BYTES = 2 << 30
_MAX_JOBS = 200  # of one checker, so that its memory stays flat


class _Spent(Exception):
    """The rest of the tests need not run: why is in `outcome` and `detail`."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


def main(confinement: Confinement, descriptors: list[int], progress: mmap.mmap) -> None:
    """Body of the forked process. descriptors: stdin, stdout, stderr, job connection, control. Never returns."""
    try:
        confinement.confine_user(is_checker=True, fds=descriptors)
        confinement.confine_calls(True, _CHECKER_MEMORY_BYTES, 1 << 20)
        job_connection = wire.stream_socket(_JOB)
        zygote = Zygote(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, _CONTROL))
        sys.setrecursionlimit(3000)  # a decoder goes deeper than the values it decodes
        for _ in range(_MAX_JOBS):
            checker = Checker(wire.receive(job_connection), job_connection, zygote, progress)
            checker.run()
            if not checker.is_clean:
                break
    except wire.Disconnected:
        pass  # the pool is gone
    except BaseException as error:  # noqa: BLE001 - a fault of the sandbox: the pool tries a fresh worker
        line = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(line.filename)}:{line.lineno}"
        wire.send(job_connection, {"fault": f"checker: {type(error).__name__}: {error} at {where}"})
    finally:
        os._exit(0)


class Checker:
    """Judges one job: a program with its tests."""

    def __init__(self, job: dict[str, Any], connection: socket.socket, zygote: Zygote, progress: mmap.mmap) -> None:
        self._job = job
        self._connection = connection
        self._zygote = zygote
        self._progress = progress
        self._session: Session | None = None
        self._names: dict[str, Any] = {}
        self._base: dict[str, Any] = {}  # globals that every test starts with
        self._timeouts = 0
        self._usage: dict[str, Any] = {"cpu": 0.0, "peak_rss": 0, "trusted": True, "stdout": b"", "stderr": b""}
        self._outcomes: list[list[Any]] = []
        self.is_clean = not job["setup"]  # whether this process may judge another program afterwards
        self._flushed = time.monotonic()

    def run(self) -> None:
        """Judge the tests not yet known, in the job's order; report outcomes as they come, then the totals."""
        random.seed(zlib.crc32(repr(self._job["tests"]).encode()))
        spent: _Spent | None = None
        for index in self._job["order"]:
            struct.pack_into("<i", self._progress, 0, index)
            started, cpu = time.monotonic(), 0.0
            if spent is None:
                try:
                    outcome, cpu, detail = self._judge(index)
                except _Spent as error:
                    spent = error
            if spent is not None:
                outcome, detail = spent.outcome, spent.detail
            self._timeouts += outcome == "timeout"
            if self._timeouts >= MAX_TIMEOUTS and spent is None:
                spent = _Spent("timeout", f"not run: {MAX_TIMEOUTS} tests had timed out")
            now = time.monotonic()
            self._outcomes.append([index, outcome, cpu, now - started, detail[:200]])
            if now - self._flushed > _FLUSH_SECONDS:
                self._flush()
        self._end_session()
        struct.pack_into("<i", self._progress, 0, -1)
        report = {name: self._usage[name] for name in ("cpu", "peak_rss", "trusted")}
        for name in ("stdout", "stderr"):
            report[name] = self._usage[name].decode("utf-8", "replace")
        wire.send(self._connection, {"outcomes": self._outcomes, "report": report})

    def _flush(self) -> None:
        wire.send(self._connection, {"outcomes": self._outcomes})
        self._outcomes = []
        self._flushed = time.monotonic()

    def _judge(self, index: int) -> tuple[str, float, str]:
        """(outcome, CPU seconds of the candidate, short detail) of one test."""
        tests = self._job["tests"]
        if index >= len(tests):
            return self._judge_output(*self._job["stdin_tests"][index - len(tests)])
        try:
            test = Test(tests[index])
        except (SyntaxError, ValueError) as error:
            return "internal_error", 0.0, f"the test does not compile: {error}"
        if self._job["fresh_per_test"] or (self._session is not None and self._session.failure is not None):
            self._end_session()
        session = self._start()
        if test.needs_in_process:
            return self._judge_in_process(test)
        self.is_clean = self.is_clean and leaves_no_trace(test.code)
        signal.setitimer(signal.ITIMER_PROF, self._job["cpu_seconds"] + 0.05)
        try:
            return self._run_test(test, session)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _run_test(self, test: Test, session: Session) -> tuple[str, float, str]:
        session.start_clock()
        session.raised = None
        outcome, detail = "accepted", ""
        try:
            namespace = self._namespace(test, session)
            exec(test.code, namespace)
            if self._calls_check(test):
                namespace["check"](namespace[self._job["entry_point"]])
        except proxies.NeedsInProcess:
            return self._judge_in_process(test)
        except CandidateFailed as failure:
            outcome, detail = failure.outcome, failure.detail
        except BaseException as error:  # noqa: BLE001 - a test may end in any exception, and that is its outcome
            detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if isinstance(error, MemoryError):
                outcome = "memory"
            elif isinstance(error, AssertionError) and error is not session.raised:
                outcome = "wrong_answer"
            else:
                outcome = "runtime_error"
        if session.failure is not None:  # whatever the test made of it
            outcome, detail = session.failure.outcome, session.failure.detail
        used = session.used() if session.usage is None else session.usage["cpu"] - session._cpu_at_start
        if outcome == "memory":
            self._end_session()  # the next test shall not find the memory full
        return outcome, used, detail

    def _calls_check(self, test: Test) -> bool:
        """HumanEval's form: the text defines check(candidate) and leaves calling it to us."""
        return self._job["entry_point"] is not None and "def check(" in test.text

    # The candidate

    def _new_session(self, stdin: str | None) -> Session:
        job = self._job
        session = Session(self._zygote, job["cpu_seconds"], job["wall_seconds"], job["memory_bytes"])
        tests = len(job["order"]) if stdin is None else 1
        backstop = int((tests + 1) * job["cpu_seconds"]) + 2  # of the whole process, should this checker die
        hello = {"source": job["source"], "memory_bytes": job["memory_bytes"], "cpu_seconds": backstop, "stdin": stdin}
        session.send(hello)
        return session

    def _start(self) -> Session:
        """A session with the program loaded; raises _Spent when it cannot be loaded."""
        if self._session is not None:
            return self._session
        self._session = session = self._new_session(None)
        try:
            hello = session.receive()
        except CandidateFailed as failure:
            raise _Spent(failure.outcome, failure.detail) from None
        if "error" in hello:
            outcome, detail = _load_failure(hello)
            raise _Spent(outcome, detail)
        self._names = {
            name: list(kind)
            for name, kind in dict(hello.get("names", {})).items()
            if isinstance(kind, list) and kind and isinstance(kind[0], str)
        }
        self._prepare(session)
        return session

    def _prepare(self, session: Session) -> None:
        """Globals for the tests: the program's exceptions, then the prompt's helpers."""
        self._base = {"__name__": "__test__", **session.define_exceptions(self._names)}
        self._protected: set[str] = set()
        if not self._job["setup"]:
            return
        setup = Setup(self._job["setup"], self._job["entry_point"], self._names)
        self._protected = setup.functions
        self._bind(self._base, setup.names - setup.functions, session, shadowing=None)
        try:
            exec(setup.code, self._base)
        except CandidateFailed as failure:
            raise _Spent(failure.outcome, failure.detail) from None
        except proxies.NeedsInProcess:
            raise _Spent("runtime_error", "the setup compares the program's own objects") from None
        except Exception as error:  # noqa: BLE001 - most often a name that the program does not define
            raise _Spent("runtime_error", f"in the setup: {type(error).__name__}: {error}") from None

    def _namespace(self, test: Test, session: Session) -> dict[str, Any]:
        namespace = dict(self._base)
        entry_point = self._job["entry_point"]
        shadowing = entry_point
        if entry_point is None:
            # `assert sum(10, 15) == 6`: only where a test names nothing else of the program is a built-in's name meant
            # to be the program's. Otherwise the program could replace the `abs` or `math` that its tests are judged by.
            theirs = {name for name in test.names if self._is_callable(name)}
            hidden = {name for name in theirs if self._is_protected(name)}
            if len(hidden) == 1 and hidden == theirs:
                (shadowing,) = hidden
        wanted = test.names | ({entry_point} if entry_point is not None else set())
        self._bind(namespace, wanted, session, shadowing)
        return namespace

    def _is_callable(self, name: str) -> bool:
        return self._names.get(name, ("",))[0] == "callable"

    def _is_protected(self, name: str) -> bool:
        return hasattr(builtins, name) or name in MODULES or name in self._protected

    def _bind(self, namespace: dict[str, Any], names: set[str], session: Session, shadowing: str | None) -> None:
        for name in names:
            kind, *rest = self._names.get(name, ("",))
            if self._is_protected(name) and name != shadowing:
                if name in MODULES and name not in namespace:
                    namespace[name] = importlib.import_module(name)
            elif kind == "callable":
                value = session._decode(rest[0])
                if isinstance(value, proxies.Proxy):
                    value._mark(_makes_own=proxies.looks_like_a_class(name))
                namespace[name] = value
            elif kind == "module" and rest[0] in MODULES:
                namespace[name] = importlib.import_module(rest[0])
            elif kind == "data":
                namespace[name] = session.data(name)

    def _end_session(self) -> None:
        if self._session is not None:
            self._add_usage(self._session)
            self._session = None

    def _add_usage(self, session: Session) -> None:
        for name, text in zip(("stdout", "stderr"), session.output(), strict=True):
            self._usage[name] = (self._usage[name] + text)[:MAX_OUTPUT_BYTES]
        assert session.usage is not None
        self._usage["cpu"] += session.usage["cpu"]
        self._usage["peak_rss"] = max(self._usage["peak_rss"], session.usage["peak_rss"])

    def _judge_in_process(self, test: Test) -> tuple[str, float, str]:
        """Run the test inside a candidate of its own, which sees its text; the answer is marked as not trusted."""
        self._usage["trusted"] = False
        self._end_session()
        session = self._start()
        session.start_clock()
        setup = self._job["setup"]
        outcome, detail = "accepted", ""
        fields = {"setup": setup, "test": test.text, "entry_point": self._job["entry_point"]}
        try:
            reply = session.request("in_process", calls_check=self._calls_check(test), **fields)
            if "failed" in reply:
                outcome, detail = "wrong_answer", "AssertionError"
        except CandidateFailed as failure:
            outcome, detail = failure.outcome, failure.detail
        except BaseException as error:  # noqa: BLE001 - the program's own
            outcome = "memory" if isinstance(error, MemoryError) else "runtime_error"
            detail = f"{type(error).__name__}: {error}"
        used = session.used()
        self._end_session()
        return outcome, used, detail

    # Programs that read stdin and write stdout

    def _judge_output(self, stdin: str, expected: str) -> tuple[str, float, str]:
        session = self._new_session(stdin)
        outcome, detail = "accepted", ""
        try:
            reply = session.receive()
            if "error" in reply:
                outcome, detail = _load_failure(reply)
        except CandidateFailed as failure:
            # Leaving by os._exit(0) is a script's right; what it wrote decides.
            session.stop()
            assert session.usage is not None
            if session.usage["status"] != 0:
                outcome, detail = failure.outcome, failure.detail
        session.stop()
        limit = max(MAX_OUTPUT_BYTES, 2 * len(expected.encode("utf-8", "surrogatepass")) + 4096)
        if session.stdout_bytes() > limit:
            outcome, detail = "output_limit", f"more than {limit} bytes of output"
        elif outcome == "accepted":
            written = os.pread(session._stdout, limit, 0).decode("utf-8", "replace")
            if not same_output(written, expected):
                outcome, detail = "wrong_answer", "the output differs"
        assert session.usage is not None
        used = session.usage["cpu"]
        self._add_usage(session)
        return outcome, used, detail


def _load_failure(reply: dict[str, Any]) -> tuple[str, str]:
    names, message = reply["error"], str(reply.get("message", ""))
    detail = f"{names[0] if isinstance(names, list) and names else '?'}: {message}"
    if "MemoryError" in names:
        return "memory", detail
    if reply.get("phase") == "compile":
        return "syntax_error", detail
    return "runtime_error", detail
