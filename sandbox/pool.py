"""A pool of worker processes that judges programs, used alike from a script, a Ray actor and the command line."""

import contextlib
import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Protocol, Self

from sandbox import isolation
from sandbox.packages import find, hold
from sandbox.program import Program, TestOutcome, Usage, Verdict, classify
from sandbox.worker_process import WorkerLost, WorkerProcess

logger = logging.getLogger(__name__)


class PoolClosed(RuntimeError):
    """The pool was closed, by close() or the end of its `with` block, before the programs were judged."""


class Worker(Protocol):
    """What a pool drives: a process on this machine, or a rented machine. Used by one thread at a time."""

    report: isolation.IsolationReport

    def judge(self, program: Program, known: dict[int, TestOutcome], usage: Usage) -> None:
        """Judge a program, adding to its outcomes and usage. Raises WorkerLost."""
        ...

    def kill(self) -> None:
        """Kill it. Idempotent."""
        ...


class SandboxPool:
    """Worker processes that judge programs. Usable from several threads, but not from a fork of its process."""

    _ATTEMPTS = 2  # a failure of a worker is retried once, in a fresh one; that of a start in any that is free

    def __init__(
        self,
        num_workers: int = 1,
        min_isolation: str = "standard",
        *,
        packages: Sequence[str] = (),
        layers: tuple[str, ...] = isolation.LAYERS,
        rented: tuple[str, Callable[[], Worker]] | None = None,
    ) -> None:
        """Start the first worker; others start when they have work. All layers that this machine offers are applied.

        min_isolation: "standard" raises SandboxUnavailable, with the remedy, if they do not reach the floor; "none"
        accepts what there is, with a warning and a mark in every verdict. packages: modules of the sandbox's own
        environment (sandbox/packages.py) that programs and tests have besides the standard library; raises
        PackageError. layers: those to try, fewer than all only to measure their cost. rented: a provider, and what
        starts a worker on a machine of its, which then is the isolation.
        """
        if num_workers < 1:
            raise ValueError("num_workers must be at least 1")
        if min_isolation not in isolation.LEVELS:
            raise ValueError(f"min_isolation must be one of {', '.join(isolation.LEVELS)}, not {min_isolation!r}")
        environment = find(packages)
        self._packages = hold(environment)
        self._level, self._start_worker = rented or (min_isolation, partial(WorkerProcess, layers, environment))
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        try:
            first = self._start_worker()
        except WorkerLost as error:
            raise isolation.SandboxUnavailable(f"no worker starts: {error}") from error
        self._layers_of_first = set(first.report.applied)
        self.isolation = self._isolation_of(first)
        if self._level == "none":
            logger.warning("sandbox: min_isolation='none': programs run with %s", first.report.summary())
        elif self._level == "standard" and first.report.lacking():
            first.kill()
            first.report.require_floor()
        self._threads = ThreadPoolExecutor(num_workers, "sandbox")  # each takes a worker, or starts one
        self._num_workers = num_workers
        self._free: deque[Worker | None] = deque([*[None] * (num_workers - 1), first])  # used from the right
        self._busy: dict[Worker, threading.Event] = {}  # by what tells that their call is over

    def _isolation_of(self, worker: Worker) -> str:
        return f"{self._level}:{worker.report.summary()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(self, programs: Iterable[Program]) -> list[Verdict]:
        """Judge programs; verdicts in the programs' order. Raises PoolClosed."""
        verdicts = dict(self.stream(programs))
        return [verdicts[index] for index in range(len(verdicts))]

    def stream(self, programs: Iterable[Program]) -> Iterator[tuple[int, Verdict]]:
        """Judge programs; (index, verdict) as they finish. Raises PoolClosed."""
        if os.getpid() != self._pid:
            raise RuntimeError("this pool belongs to another process: create one after the fork")
        over = threading.Event()  # or interrupted: what is left is not judged
        waiting, pending = enumerate(programs), dict[Future[Verdict], int]()
        try:
            while True:
                # Not all at once: the interpreter's exit waits for what was submitted.
                for index, program in itertools.islice(waiting, 2 * self._num_workers - len(pending)):
                    pending[self._submit(program, over)] = index
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(future), future.result()
        finally:
            # An interrupted call leaves no work behind for the next one, neither waiting nor under way.
            with self._lock:
                over.set()
                workers = [worker for worker, of_call in self._busy.items() if of_call is over]
            for future in pending:
                future.cancel()
            for worker in workers:
                worker.kill()

    def _submit(self, program: Program, over: threading.Event) -> Future[Verdict]:
        try:
            return self._threads.submit(self._judge, program, over)
        except RuntimeError as error:  # they were shut down
            raise PoolClosed("the pool is closed") from error

    def close(self) -> None:
        """Kill all workers immediately. Idempotent."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            busy = list(self._busy)
        for worker in busy:
            worker.kill()
        self._threads.shutdown()
        while self._free:
            if (free := self._free.pop()) is not None:
                free.kill()
        self._packages.close()

    def _take(self, is_fresh: bool) -> Worker:
        """A free worker, or a new one. Raises WorkerLost if that does not start; others are then taken before it."""
        if self._closed:
            raise WorkerLost("the pool is closed")
        worker = self._free.pop()
        try:
            if is_fresh and worker is not None:
                worker.kill()
            if is_fresh or worker is None:
                worker = self._start_worker()
                lacking = self._layers_of_first.difference(worker.report.applied)
                if lacking:
                    worker.kill()
                    lacks = ", ".join(sorted(lacking))
                    raise WorkerLost(f"a new worker lacks layers that the first one has: {lacks}")
        except BaseException:
            self._free.appendleft(None)
            raise
        return worker

    @contextlib.contextmanager
    def _worker(self, over: threading.Event, is_fresh: bool) -> Iterator[Worker]:
        """A worker for one program, which is not used again if that fails or is interrupted. Raises WorkerLost."""
        worker = self._take(is_fresh)
        is_good = False
        try:
            with self._lock:
                self._busy[worker] = over
                is_interrupted = self._closed or over.is_set()
            if is_interrupted:
                raise WorkerLost("interrupted")
            yield worker
            is_good = True
        finally:
            with self._lock:
                self._busy.pop(worker, None)
                is_good = is_good and not over.is_set()
            if not is_good:
                worker.kill()
            self._free.append(worker if is_good else None)

    def _judge(self, program: Program, over: threading.Event) -> Verdict:
        started = time.monotonic()
        known: dict[int, TestOutcome] = {}
        usage = Usage()
        fault, layers, is_fresh = "", self.isolation, False
        count = len(program.tests) + len(program.stdin_tests or ())
        for attempt in range(self._ATTEMPTS):
            try:
                with self._worker(over, is_fresh) as worker:
                    is_fresh = True  # at the next attempt
                    layers = self._isolation_of(worker)
                    worker.judge(program, known, usage)
                    failed = {index: known[index].detail for index in known if known[index].verdict == "internal_error"}
                    for index in failed:
                        del known[index]
                    if failed:
                        raise WorkerLost(min(failed.items())[1])
                break
            except WorkerLost as error:
                fault = str(error)
                if self._closed:
                    raise PoolClosed("the pool was closed before all programs were judged") from error
                if over.is_set():
                    break
                logger.warning("sandbox: no verdict at attempt %d of %d: %s", attempt + 1, self._ATTEMPTS, fault)
        outcomes = tuple(
            known.get(index) or TestOutcome("internal_error", detail=fault[:200]) for index in range(count)
        )
        pass_ratio, error_type = classify(outcomes, program.truncated)
        return Verdict(
            pass_ratio=pass_ratio,
            error_type=error_type,
            tests=outcomes,
            exec_time=usage.cpu,
            wall_time=time.monotonic() - started,
            peak_rss=usage.peak_rss,
            stdout=usage.stdout,
            stderr=usage.stderr,
            trusted_compare=all(outcome.trusted for outcome in outcomes),
            isolation=layers,
        )
