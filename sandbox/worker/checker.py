"""The checker process: has the tests of a program and judges it.

A test that only calls the program's functions runs here, in the checker's own globals; any other runs in a candidate of
its own (sandbox/lanes.py decides, before the program is seen). The checker is trusted, but confined all the same: what
it decodes came from a candidate. Its own CPU time is limited from the start of a test to its end, by a profiling timer
whose default action ends the process, so not even a comparison that never returns to Python can hang it; the pool then
sends the rest of the tests to a new checker.

A checker takes the next program unless its tests may have left a trace. Nothing is ever forked from a checker.
"""

import _socket
import contextlib
import decimal
import gc
import importlib
import marshal
import os
import resource
import signal
import socket
import sys
import time
from typing import Any

from . import arrays, packages, values, wire
from .confinement import Confinement
from .in_process import innermost, outcome_of, prepare_unittest, shown
from .outputs import same_output
from .remote import Remote
from .session import KILLED, MAX_OUTPUT_BYTES, PROGRESS, CandidateFailed, Session

MAX_TIMEOUTS = 8  # after this many, the program's other tests count as timed out without being run
_KILLS = 2  # how often a test is rerun whose candidate was killed from outside
_FLUSH_SECONDS = 0.02
_JOB, _CONTROL, _PROGRESS = 3, 4, 5  # their numbers among the descriptors that stay open
_CHECKER_MEMORY_BYTES = 2 << 30
_MAX_JOBS = 200  # of one checker, so that its memory stays flat
_MOST_KIB = 256 << 10  # what one program's answers leave behind, reference cycles too, must not cramp the next
_UNUSED = {"cpu": 0.0, "peak_rss": 0, "stdout": b"", "stderr": b""}
_PHASES = {"compile": "syntax_error", "load": "runtime_error"}


def main(confinement: Confinement, fds: list[int]) -> None:
    """Body of the forked process. Never returns. fds: the streams and what is named above."""
    try:
        confinement.confine_user(True, fds)
        confinement.confine_calls(True, _CHECKER_MEMORY_BYTES, 1 << 20)
        job_connection = wire.stream_socket(_JOB)
        jobs = wire.Frames(job_connection)
        zygote = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, _CONTROL)
        sys.setrecursionlimit(values.RECURSION_LIMIT)
        values.free_safely()
        arrays.compare_strictly()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + _MOST_KIB
        for _ in range(_MAX_JOBS):
            job = jobs.order()
            Checker(job, job_connection, zygote).run()
            is_large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > most
            if is_large or job["leaves_traces"]:
                break
    except ConnectionError:
        pass  # the pool is gone
    except BaseException as error:  # noqa: BLE001 - a fault of the sandbox: the pool tries a fresh worker
        job_connection.sendall(wire.encode_frame({"fault": f"checker: {shown(error)} at {_place(error)}"}))
    finally:
        os._exit(0)


def _place(error: BaseException) -> str:
    frame = innermost(error)
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class _Globals(dict[str, Any]):
    """A test's globals; the program's variables are looked up when the test reads them."""

    def __init__(self, names: dict[str, Any], session: Session, values: list[str]) -> None:
        super().__init__(names)
        self._session = session
        self._values = values

    def __missing__(self, name: str) -> Any:
        if name in self._values:
            return self._session.value(name)
        raise KeyError(name)


class Checker:
    """Judges one job: a program with its tests."""

    def __init__(self, job: dict[str, Any], connection: _socket.socket, zygote: socket.socket) -> None:
        self._job = job
        self._connection = connection
        self._zygote = zygote
        self._session: Session | None = None
        self._timeouts = job["timeouts"]
        self._wall, self._cpu = job["spent"]  # seconds that tests have taken
        self._usage: dict[str, Any] = {**_UNUSED}  # since the last message, as are these:
        self._outcomes: list[list[Any]] = []
        self._spent: tuple[str, str] | None = None  # outcome and detail of the tests that need not run
        self._flushed = time.monotonic()

    def run(self) -> None:
        """Judge the tests without an outcome, in the job's order; report outcomes and what was used as they come."""
        packages.seed(self._job["seed"])
        for index in self._job["order"]:
            os.pwrite(_PROGRESS, PROGRESS.pack(index), 0)
            started = time.monotonic()
            self._is_foreign = False
            self._is_trusted = index >= len(self._job["plans"]) or self._job["plans"][index]["apart"]
            if self._spent is None and self._timeouts >= MAX_TIMEOUTS:
                self._spent = "timeout", f"not run: {MAX_TIMEOUTS} tests had timed out"
            if self._spent is None and self._wall > 3 * self._job["wall_seconds"] + 5 * self._cpu:
                self._spent = "timeout", f"not run: the tests before took {self._wall:.0f} s"
            if self._spent is None:
                signal.setitimer(signal.ITIMER_PROF, self._job["cpu_seconds"] + 0.05)
                outcome, cpu, detail = self._judge(index)
                signal.setitimer(signal.ITIMER_PROF, 0)
            else:
                (outcome, detail), cpu = self._spent, 0.0
            self._timeouts += outcome == "timeout"
            now = time.monotonic()
            self._wall, self._cpu = self._wall + now - started, self._cpu + cpu
            shown = detail[:200].encode("utf-8", "replace").decode()
            is_trusted = self._is_trusted and not self._is_foreign
            self._outcomes.append([index, outcome, cpu, now - started, shown, is_trusted, self._is_foreign])
            if now - self._flushed > _FLUSH_SECONDS:
                self._send()
        self._end_session()
        os.pwrite(_PROGRESS, PROGRESS.pack(-1), 0)
        self._send(is_done=True)

    def _send(self, is_done: bool = False) -> None:
        usage = {**self._usage, **{name: self._usage[name].decode("utf-8", "replace") for name in ("stdout", "stderr")}}
        message = {"outcomes": self._outcomes, "usage": usage, "is_done": is_done}
        self._connection.sendall(wire.encode_frame(message))
        self._outcomes, self._usage = [], {**_UNUSED}
        self._flushed = time.monotonic()

    def _judge(self, index: int) -> tuple[str, float, str]:
        """(outcome, CPU seconds of the candidate, short detail) of one test, whatever its program breaks."""
        plans = self._job["plans"]
        try:
            for _ in range(1 + _KILLS):
                if index >= len(plans):
                    outcome = self._judge_output(*self._job["stdin_tests"][index - len(plans)])
                elif plans[index]["error"]:
                    return "internal_error", 0.0, plans[index]["error"]
                else:
                    outcome = self._judge_test(plans[index])
                if outcome[0] != KILLED:
                    return outcome
        except OSError:  # the machine's fault
            raise
        except Exception as error:  # noqa: BLE001 - what one program alone causes is that program's failure
            self._end_session()
            return "runtime_error", 0.0, f"it cannot be judged: {shown(error)} at {_place(error)}"
        return "runtime_error", outcome[1], f"{outcome[2]}, {1 + _KILLS} times"

    def _judge_test(self, plan: dict[str, Any]) -> tuple[str, float, str]:
        has_failed = self._session is not None and self._session.failure is not None
        if self._job["fresh_per_test"] or not plan["apart"] or has_failed:
            self._end_session()
        try:
            session = self._start()
        except CandidateFailed as failure:
            if failure.outcome != KILLED:
                self._spent = failure.outcome, failure.detail  # of the other tests, too
            return failure.outcome, 0.0, failure.detail
        session.start_clock()
        outcome, detail = "", ""
        if plan["apart"]:
            outcome, detail = self._run_apart(plan, session)
            if session.needs_process and session.failure is None:
                self._is_trusted = False
                return self._judge_test({**plan, "apart": False})
            self._is_foreign = session.met_foreign and outcome != "accepted"
        else:
            names = {name: plan[name] for name in ("protected", "modules")}
            with contextlib.suppress(CandidateFailed):
                outcome, detail = session.run(test=plan["text"], setup=self._job["setup"], **names)
        if session.failure is not None:  # whatever the test made of it
            outcome, detail = session.failure.outcome, session.failure.detail
        used = session.used()
        if outcome == "memory" or not plan["apart"]:
            self._end_session()  # the next test must find neither a full memory nor this test
        if outcome == "memory":
            gc.collect()  # answers left in reference cycles
        return outcome, used, detail

    def _run_apart(self, plan: dict[str, Any], session: Session) -> tuple[str, str]:
        session.raised, session.met_foreign = None, False
        session.objects, session.classes = plan["objects"], frozenset(plan["classes"])
        names: dict[str, Any] = {"__name__": "__main__"}
        names |= {name: Remote(session, ["name", name]) for name in plan["functions"]}
        names |= {name: importlib.import_module(name) for name in plan["modules"]}
        namespace = _Globals(names, session, plan["values"])
        text = self._job["setup"] + plan["text"]
        if "unittest" in text and "main" in text:
            prepare_unittest(namespace, text)

        def run() -> None:
            if self._job["setup"]:
                exec(marshal.loads(self._job["setup_code"]), namespace)
            exec(marshal.loads(plan["code"]), namespace)

        return outcome_of(run, lambda error: error is session.raised)

    # The candidate

    def _new_session(self, stdin: str | None, checker: str = "") -> Session:
        """A candidate that loads the program; for a script with its input, or for a checker of outputs instead."""
        job = self._job
        memory = _CHECKER_MEMORY_BYTES if checker else job["memory_bytes"]
        session = Session(self._zygote, job["cpu_seconds"], job["wall_seconds"], memory)
        tests = len(job["order"]) if stdin is None else 1
        backstop = int((tests + 1) * job["cpu_seconds"]) + 2  # of the whole process, should this checker die
        hello = {"source": checker or job["source"], "is_checker": bool(checker), "stdin": stdin}
        if not checker:
            self._session = session
        session.send({**hello, "memory_bytes": memory, "cpu_seconds": backstop})
        return session

    def _start(self) -> Session:
        """A session with the program loaded. Raises CandidateFailed."""
        if self._session is not None:
            return self._session
        session = self._new_session(None)
        reply = session.receive()
        if reply.get("loaded") is not True:
            raise _load_failure(reply)
        _follow_settings(reply)
        return session

    def _end_session(self) -> None:
        """End the candidate, if there is one, and add what it has used and written."""
        session, self._session = self._session, None
        if session is None:
            return
        for name, text in zip(("stdout", "stderr"), session.output(), strict=True):
            self._usage[name] = (self._usage[name] + text)[:MAX_OUTPUT_BYTES]
        usage = session.stop()
        self._usage["cpu"] += usage["cpu"]
        self._usage["peak_rss"] = max(self._usage["peak_rss"], usage["peak_rss"])

    # Programs that read stdin and write stdout

    def _judge_output(self, stdin: str, expected: str) -> tuple[str, float, str]:
        self._end_session()
        outcome, detail = "accepted", ""
        try:
            failure = _load_failure(self._new_session(stdin).receive())
        except CandidateFailed as ended:
            failure = ended
        session = self._session
        assert session is not None
        # A script may exit with status 0 in any way it likes; its output decides.
        if session.failure is None or session.stop()["status"] != 0:
            outcome, detail = failure.outcome, failure.detail
        used = session.stop()["cpu"]
        limit = max(MAX_OUTPUT_BYTES, 2 * len(expected.encode("utf-8", "surrogatepass")) + 4096)
        written = session.written(limit)
        if written is None:
            outcome, detail = "output_limit", f"more than {limit} bytes of output"
        elif outcome == "accepted":
            outcome, detail = self._compared(stdin, expected, written.decode("utf-8", "replace"))
        self._end_session()
        return outcome, used, detail

    def _compared(self, stdin: str, expected: str, written: str) -> tuple[str, str]:
        """(outcome, short detail) of a script that ended well, by its output."""
        if not self._job["checker"]:
            is_same = same_output(written, expected, self._job["stdin_compare"])
            return ("accepted", "") if is_same else ("wrong_answer", "the output differs")
        session = self._new_session(None, checker=self._job["checker"])
        try:
            if (reply := session.receive()).get("loaded") is not True:
                raise _load_failure(reply)
            session.start_clock()
            check = session.value("check")
        except (CandidateFailed, NameError) as error:
            session.output(0)
            return "internal_error", f"the checker does not load: {error}"
        try:
            is_right = bool(check(stdin, expected, written))
        except CandidateFailed as failure:
            return failure.outcome, f"the checker: {failure.detail}"
        except BaseException as error:  # noqa: BLE001 - by an output of another form; sys.exit() rejects it, too
            return "wrong_answer", f"the checker raised {shown(error)}"
        finally:
            session.output(0)
        return ("accepted", "") if is_right else ("wrong_answer", "the checker rejected the output")


def _follow_settings(reply: dict[str, Any]) -> None:
    """Decimals become as long in tests as the program wants them; never shorter, for then different ones are equal."""
    precision, context = reply.get("precision"), decimal.Context()
    context.prec = min(max(precision, context.prec), 1 << 20) if type(precision) is int else context.prec
    decimal.setcontext(context)


def _load_failure(reply: dict[str, Any]) -> CandidateFailed:
    """The failure that the program reported, even if its report makes no sense."""
    names, text = reply.get("error"), reply.get("text")
    if not (isinstance(names, list) and names and all(isinstance(name, str) for name in names) and type(text) is str):
        return CandidateFailed("runtime_error", "the program wrote into its own connection")
    outcome = "memory" if "MemoryError" in names else _PHASES.get(str(reply.get("phase")), "runtime_error")
    return CandidateFailed(outcome, f"{names[0]}: {text}")
