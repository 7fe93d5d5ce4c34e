"""A pool of worker processes that judges programs, used alike from a script, a Ray actor and the command line."""

import contextlib
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol, Self

from sandbox import isolation
from sandbox.packages import find
from sandbox.program import Program, TestOutcome, Usage, Verdict, classify
from sandbox.worker_process import WorkerLost, WorkerProcess

logger = logging.getLogger(__name__)

_CLOSED_EARLY = "the pool was closed before all programs were judged"


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


class _Call:
    """One call of run() or stream()."""

    is_over = False  # or interrupted: what is left of it is not judged


class SandboxPool:
    """Worker processes that judge programs. Usable from several threads, but not from a fork of its process."""

    _ATTEMPTS = 2  # a failure of a worker is retried once, in a fresh one; that of a start in any that is free
    _RETRY_SECONDS = 0.0

    def __init__(
        self,
        num_workers: int = 1,
        min_isolation: str = "standard",
        *,
        packages: Sequence[str] = (),
        layers: tuple[str, ...] = isolation.LAYERS,
    ) -> None:
        """Start the first worker; others start when they have work. All layers that this machine offers are applied.

        min_isolation: "standard" raises SandboxUnavailable, with the remedy, if they do not reach the floor; "none"
        accepts what there is, with a warning and a mark in every verdict. packages: modules of the sandbox's own
        environment (sandbox/packages.py) that programs and tests have besides the standard library; raises
        PackageMissing. layers: those to try, fewer than all only to measure their cost.
        """
        if num_workers < 1:
            raise ValueError("num_workers must be at least 1")
        if min_isolation not in isolation.LEVELS:
            raise ValueError(f"min_isolation must be one of {', '.join(isolation.LEVELS)}, not {min_isolation!r}")
        self._min_isolation = min_isolation
        self._layers = layers
        self._packages = find(packages)
        self._pid = os.getpid()
        self._closed = False
        self._lock = threading.Lock()
        try:
            first = self._start_worker()
        except WorkerLost as error:
            raise isolation.SandboxUnavailable(f"no worker starts: {error}") from error
        try:
            self._check_isolation(first.report)
        except BaseException:
            first.kill()
            raise
        self._layers_of_first = set(first.report.applied)
        self.isolation = self._isolation_of(first.report)
        self._threads = ThreadPoolExecutor(num_workers, "sandbox")  # each takes a worker, or starts one
        self._num_workers = num_workers
        self._free: deque[Worker | None] = deque([*[None] * (num_workers - 1), first])  # used from the right
        self._busy: dict[Worker, _Call] = {}

    def _start_worker(self) -> Worker:
        return WorkerProcess(self._layers, self._packages)

    def _check_isolation(self, report: isolation.IsolationReport) -> None:
        if self._min_isolation == "none":
            logger.warning("sandbox: min_isolation='none': programs run with %s", report.summary())
        else:
            report.require_floor()

    def _isolation_of(self, report: isolation.IsolationReport) -> str:
        return f"{self._min_isolation}:{report.summary()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, programs: Iterable[Program]) -> list[Verdict]:
        """Judge programs; verdicts in the programs' order. Raises PoolClosed."""
        verdicts = dict(self.stream(programs))
        return [verdicts[index] for index in range(len(verdicts))]

    def stream(self, programs: Iterable[Program]) -> Iterator[tuple[int, Verdict]]:
        """Judge programs; (index, verdict) as they finish. Raises PoolClosed."""
        call, waiting = _Call(), list(programs)
        done: queue.SimpleQueue[Future[Verdict]] = queue.SimpleQueue()
        indices: dict[Future[Verdict], int] = {}

        def submit_next(finished: Future[Verdict] | None = None) -> None:
            new = None
            with self._lock, contextlib.suppress(RuntimeError):  # the interpreter exits
                if len(indices) < len(waiting) and not (call.is_over or self._closed):
                    new = self._threads.submit(self._judge, waiting[len(indices)], call)
                    indices[new] = len(indices)
            if new is not None:
                new.add_done_callback(submit_next)
            if finished is not None:
                done.put(finished)

        with self._lock:
            self._check_open()
        try:
            for _ in range(self._num_workers):  # no more at once: the interpreter's exit waits for all of them
                submit_next()
            for _ in waiting:
                future = done.get()
                if future.cancelled() or (self._closed and len(indices) < len(waiting)):
                    raise PoolClosed(_CLOSED_EARLY)
                yield indices[future], future.result()
        finally:
            # An interrupted call leaves no work behind for the next one, neither waiting nor under way.
            with self._lock:
                call.is_over = True
                workers = [worker for worker, busy_with in self._busy.items() if busy_with is call]
            for future in indices:
                future.cancel()
            for worker in workers:
                worker.kill()

    def _check_open(self) -> None:
        if self._closed:
            raise PoolClosed("the pool is closed")
        if os.getpid() != self._pid:
            raise RuntimeError("this pool belongs to another process: create one after the fork")

    def close(self) -> None:
        """Kill all workers immediately. Idempotent."""
        with self._lock:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
            busy = list(self._busy)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in busy:
            worker.kill()
        self._threads.shutdown()
        while self._free:
            if (free := self._free.pop()) is not None:
                free.kill()

    def _take(self, is_fresh: bool) -> Worker:
        """A free worker, or a new one. Raises WorkerLost if that does not start; others are then taken before it."""
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
    def _worker(self, call: _Call, is_fresh: bool) -> Iterator[Worker]:
        """A worker for one program, which is not used again if that fails or is interrupted. Raises WorkerLost."""
        worker = self._take(is_fresh)
        is_good = False
        try:
            with self._lock:
                self._busy[worker] = call
                is_interrupted = self._closed or call.is_over
            if is_interrupted:
                raise WorkerLost("interrupted")
            yield worker
            is_good = True
        finally:
            with self._lock:
                self._busy.pop(worker, None)
                is_good = is_good and not call.is_over
            if not is_good:
                worker.kill()
            self._free.append(worker if is_good else None)

    def _judge(self, program: Program, call: _Call) -> Verdict:
        started = time.monotonic()
        known: dict[int, TestOutcome] = {}
        usage = Usage()
        fault, layers, is_fresh = "", self.isolation, False
        count = len(program.tests) + len(program.stdin_tests or ())
        for attempt in range(self._ATTEMPTS):
            if attempt:
                time.sleep(self._RETRY_SECONDS)
            try:
                with self._worker(call, is_fresh) as worker:
                    is_fresh = True  # at the next attempt
                    layers = self._isolation_of(worker.report)
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
                    raise PoolClosed(_CLOSED_EARLY) from error
                if call.is_over:
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
