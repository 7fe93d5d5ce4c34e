"""One worker process, as the pool sees it: start it, have it judge a job, notice its death."""

import contextlib
import dataclasses
import functools
import marshal
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from sandbox import lanes
from sandbox.isolation import IsolationReport
from sandbox.packages import NO_PACKAGES, Packages
from sandbox.program import Program, TestOutcome, Usage
from sandbox.worker import wire

_START_SECONDS = 60.0  # generous: a hundred workers may start at once
_GRACE_SECONDS = 10.0
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGSYS)
_HANG_UP_SECONDS = 1.0
# The whole environment. With random string hashes the order of a set, and so a program's answer, would differ from run
# to run. -I would ignore this, hence -P -s, which with -S and our own environment isolate as much. With LD_BIND_NOW the
# linker works once at the start rather than in every fork. With one arena a thread does not reserve 64 MiB of the
# address space that a program may have.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "LD_BIND_NOW": "1", "MALLOC_ARENA_MAX": "1"}
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("BLIS", "MKL", "NUMEXPR", "OMP", "OPENBLAS")}
"""For packages. A zygote with threads could not be forked, and a program's CPU time would depend on the cores."""
# What programs import most, imported before the first fork, so that none of them pays for it. No more than that: every
# page of the zygote makes every fork more expensive.
_WARM = """
array bisect collections collections.abc contextlib copy dataclasses datetime decimal enum fractions functools heapq io
itertools json math operator random re string sys threading time typing
"""
# The worker's code comes over the connection: neither its arguments nor its modules reveal where this checkout is. The
# standard library's after-fork hooks are left out: they make new locks, for threads that a zygote does not have, and
# reseed `random`, which must keep its seed. They cost every fork 170 page faults. Our code is loaded last, and so is in
# few pages: a candidate that runs it copies them. It has built-ins of its own: a program may replace those of everyone.
_BOOT = """
import builtins, importlib.machinery, marshal, os, socket, sys
connection = socket.socket(fileno=int(sys.argv[1]))
codes = connection.recv(int(sys.argv[2]), socket.MSG_WAITALL)
register, os.register_at_fork = os.register_at_fork, lambda **hooks: None
warm = sys.argv[3].split()
for name in [*warm, "ctypes", "glob", "resource"]:
    __import__(name)
codes, own = marshal.loads(codes), {**vars(builtins)}
class Codes:
    def find_spec(self, name, path=None, target=None):
        if name in codes:
            return importlib.machinery.ModuleSpec(name, self, is_package=name == "worker")
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        vars(module)["__builtins__"] = own
        exec(codes[module.__name__], vars(module))
sys.meta_path.insert(0, Codes())
from worker import zygote
os.register_at_fork = register
del sys.meta_path[0], Codes, codes
zygote.main(connection, warm)
"""


@functools.cache
def _codes() -> bytes:
    """The compiled modules of the worker, by name."""
    codes = {}
    for path in Path(__file__).with_name("worker").glob("*.py"):
        name = f"worker.{path.stem}".removesuffix(".__init__")
        codes[name] = compile(path.read_bytes(), f"worker/{path.name}", "exec", dont_inherit=True)
    return marshal.dumps(codes)


class WorkerLost(RuntimeError):
    """The worker process died, hung or broke its protocol; it must be restarted."""


class WorkerProcess:
    """A worker process. Used by one thread at a time."""

    def __init__(self, layers: tuple[str, ...], packages: Packages = NO_PACKAGES) -> None:
        """Start a worker that tries to apply these layers. Raises WorkerLost when it does not come up."""
        self._packages = packages
        ours, theirs = socket.socketpair()
        interpreter = getattr(sys, "_base_executable", None) or sys.executable
        codes = _codes()
        command = [interpreter, "-P", "-s", "-S", "-c", _BOOT, str(theirs.fileno()), str(len(codes)), _WARM]
        self._stderr = os.memfd_create("worker-stderr")  # a file rather than a pipe, which would have to be drained
        # exec, never a fork of the caller, whose memory holds the tests, the weights and the user's credentials.
        self._process = subprocess.Popen(
            command,
            env={**_ENVIRONMENT, **(_ONE_THREAD if packages.names else {})},
            cwd="/",
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            start_new_session=True,  # a Ctrl-C in the terminal is the pool's to handle
        )
        theirs.close()
        self._connection = ours
        self._frames = wire.Frames(ours)
        ours.settimeout(_START_SECONDS)
        self._ending = threading.Lock()
        self._is_ended = False
        try:
            ours.sendall(codes)
            given = {"names": list(packages.names), "paths": list(packages.paths)}
            ours.sendall(wire.encode_order({"layers": list(layers), "packages": given}))
            report = self._frames.message()
        except OSError as error:
            raise WorkerLost(f"the worker did not start: {self._last_words() or error!r}") from error
        missing = {layer: (why[0], why[1]) for layer, why in report["missing"].items()}
        self.report = IsolationReport(tuple(report["applied"]), missing)

    @property
    def pid(self) -> int:
        """The pid of the worker's outermost process, which leads its process group."""
        return self._process.pid

    def _last_words(self) -> str:
        text = os.pread(self._stderr, 1 << 16, 0).decode(errors="replace").strip()[-500:]
        self.kill()
        return text

    def kill(self) -> None:
        """End the worker and everything below it. Idempotent, and safe while another thread is in judge()."""
        with self._ending:
            if self._is_ended:
                return
            self._is_ended = True
            # The zygote then ends and reaps all below it, and its parent reaps it. Shut down rather than closed: a
            # thread that reads must see the end of this connection, not whatever gets its descriptor number next.
            self._connection.shutdown(socket.SHUT_RDWR)
            try:
                self._process.wait(_HANG_UP_SECONDS)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            os.close(self._stderr)

    def judge(self, program: Program, known: dict[int, TestOutcome], usage: Usage) -> None:
        """Judge a program; outcomes and usage are added as they arrive, so that a lost worker loses none.

        Raises WorkerLost.
        """
        modules = self._packages.names + self._packages.hidden
        plans, of_problem = lanes.problem(program.setup, tuple(program.tests), program.entry_point, modules)
        count = len(plans) + len(program.stdin_tests or ())
        order = list(range(count))
        if program.test_order_seed is not None:
            random.Random(program.test_order_seed).shuffle(order)
        # A frame comes at least after every slow test: loading, the test, and the checker's own share.
        self._connection.settimeout(3 * program.wall_limit + program.cpu_seconds + _GRACE_SECONDS)
        job = of_problem | {
            "source": program.source,
            "stdin_tests": [*map(list, program.stdin_tests or ())],
            "stdin_compare": program.stdin_compare,
            "checker": program.checker,
            "fresh_per_test": bool(program.fresh_per_test),
            "cpu_seconds": float(program.cpu_seconds),
            "wall_seconds": float(program.wall_limit),
            "memory_bytes": int(program.memory_mb) << 20,
        }
        checker_is_new = False
        while len(known) < count:
            job["order"] = [index for index in order if index not in known]
            job["spent"] = [
                sum(outcome.wall for outcome in known.values()),
                sum(outcome.cpu for outcome in known.values()),
            ]
            job["timeouts"] = sum(outcome.verdict == "timeout" for outcome in known.values())
            try:
                self._connection.sendall(wire.encode_order(job))
                died = self._follow(known, usage)
            except (OSError, ValueError, RecursionError) as error:
                raise WorkerLost(f"{type(error).__name__}: {error}") from error
            if died is None:
                return
            index, outcome = _post_mortem(died, program.memory_mb << 20)
            usage.cpu += outcome.cpu
            # The rest goes to a new checker. So does this test, if what an earlier program left may be the reason.
            if outcome.verdict != "runtime_error" or checker_is_new:
                if index < 0 or index in known:
                    raise WorkerLost(f"the checker died between tests: {outcome.detail}")
                trusted = index >= len(plans) or plans[index].apart
                known[index] = dataclasses.replace(outcome, trusted=trusted)
            checker_is_new = True

    def _follow(self, known: dict[int, TestOutcome], usage: Usage) -> dict[str, Any] | None:
        """Add outcomes and usage as the checker tells of them; None once it has finished its job, or how it died."""
        while True:
            message = self._frames.message()
            for index, *outcome in message.get("outcomes", ()):
                known[index] = TestOutcome(*outcome)
            if "usage" in message:
                usage.add(**message["usage"])
            if "fault" in message:
                raise WorkerLost(message["fault"])
            if message.get("is_done") or "died" in message:
                return message.get("died")


def _post_mortem(died: dict[str, Any], memory_bytes: int) -> tuple[int, TestOutcome]:
    """(the test in which a checker died, its outcome)."""
    status, cpu = died["status"], died["cpu"]
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if number == signal.SIGPROF:
        return died["test"], TestOutcome("timeout", cpu, detail="judging took more CPU time than the limit")
    # Not every SIGKILL is the kernel's for lack of memory: one from outside is our own fault, and the test is rerun.
    if number == signal.SIGKILL and died["peak_rss"] > memory_bytes // 2:
        return died["test"], TestOutcome("memory", cpu, detail="judging ran out of memory")
    if number in _CRASHES:  # caused by the program's answer, which must not avoid a score
        return died["test"], TestOutcome("runtime_error", cpu, detail=f"judging crashed: {signal.Signals(number).name}")
    return died["test"], TestOutcome("internal_error", cpu, detail=f"the checker died with status {status:#x}")
