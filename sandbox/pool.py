"""A pool of worker processes that judges programs, used alike from a script, a Ray actor and the command line."""

import logging
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
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
    """One call of run() or stream(): its programs are in the pool's queue, its verdicts come back in `results`."""

    def __init__(self) -> None:
        self.results: queue.SimpleQueue[tuple[int, Verdict | BaseException]] = queue.SimpleQueue()
        self.cancelled = False


class SandboxPool:
    """Worker processes that judge programs. Usable from several threads, but not from a fork of its process."""

    _ATTEMPTS = 2  # a failure of the sandbox is retried once, in a fresh worker
    _RETRY_SECONDS = 0.0

    def __init__(
        self,
        num_workers: int = 1,
        min_isolation: str = "standard",
        *,
        packages: Sequence[str] = (),
        layers: tuple[str, ...] = isolation.LAYERS,
    ) -> None:
        """Start the workers. All layers of isolation that this machine offers are applied.

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
        self._jobs: queue.SimpleQueue[tuple[_Call, int, Program] | None] = queue.SimpleQueue()
        try:
            first = self._start_worker()
        except WorkerLost as error:
            raise isolation.SandboxUnavailable(f"no worker starts: {error}") from error
        # Every other thread starts its own worker, all at the same time.
        self._workers: list[Worker | None] = [first, *[None] * (num_workers - 1)]
        self._current: list[_Call | None] = [None] * num_workers  # whose program each worker judges
        try:
            self._check_isolation(first.report)
        except BaseException:
            first.kill()
            raise
        self._layers_of_first = set(first.report.applied)
        self.isolation = self._isolation_of(first.report)
        self._threads = [
            threading.Thread(target=self._work, args=(slot,), name=f"sandbox-{slot}", daemon=True)
            for slot in range(num_workers)
        ]
        for thread in self._threads:
            thread.start()

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
        call = _Call()
        waiting = list(programs)
        with self._lock:
            self._check_open()
            for index, program in enumerate(waiting):
                self._jobs.put((call, index, program))
        try:
            for _ in waiting:
                index, verdict = call.results.get()
                if isinstance(verdict, BaseException):
                    raise verdict
                yield index, verdict
        finally:
            self._cancel(call)

    def _cancel(self, call: _Call) -> None:
        """An interrupted call leaves no work behind for the next one, neither waiting nor under way."""
        with self._lock:
            call.cancelled = True
            workers = [worker for worker, current in zip(self._workers, self._current, strict=True) if current is call]
        for worker in workers:
            if worker is not None:
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
        for _ in self._threads:
            self._jobs.put(None)
        self._kill_workers()
        for thread in self._threads:
            thread.join()
        self._kill_workers()  # those that a thread had just restarted
        self._workers = [None] * len(self._workers)  # closes their sockets
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                job[0].results.put((job[1], PoolClosed(_CLOSED_EARLY)))

    def _kill_workers(self) -> None:
        for worker in self._workers:
            if worker is not None:
                worker.kill()

    def _work(self, slot: int) -> None:
        """Body of the thread that drives one worker."""
        try:
            self._worker(slot)
        except WorkerLost as error:
            logger.warning("sandbox: worker %d did not start (retried with its next program): %s", slot, error)
        while (job := self._jobs.get()) is not None:
            call, index, program = job
            with self._lock:
                if call.cancelled:
                    continue
                self._current[slot] = call
            result: Verdict | BaseException
            try:
                result = self._judge(slot, program, call)
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread, which would otherwise hang
                result = error
            with self._lock:
                # Before the caller gets it: a call that ends kills the workers that are busy with its programs.
                self._current[slot] = None
                if call.cancelled:
                    self._drop_worker(slot)
            call.results.put((index, result))

    def _judge(self, slot: int, program: Program, call: _Call) -> Verdict:
        started = time.monotonic()
        known: dict[int, TestOutcome] = {}
        usage = Usage()
        fault, layers = "", self.isolation
        for attempt in range(self._ATTEMPTS):
            if self._closed:
                raise PoolClosed(_CLOSED_EARLY)
            if attempt:
                time.sleep(self._RETRY_SECONDS)
            try:
                worker = self._worker(slot)
                layers = self._isolation_of(worker.report)
                worker.judge(program, known, usage)
            except WorkerLost as error:
                fault = str(error)
                self._drop_worker(slot)
                if call.cancelled:
                    break
                if not self._closed:
                    logger.warning("sandbox: worker %d lost: %s", slot, fault)
                continue
            failed = [index for index, outcome in known.items() if outcome.verdict == "internal_error"]
            if not failed:
                break
            fault = known[failed[0]].detail
            for index in failed:
                del known[index]
            self._drop_worker(slot)
        if self._closed:
            raise PoolClosed(_CLOSED_EARLY)
        count = len(program.tests) + len(program.stdin_tests or ())
        outcomes = tuple(
            known.get(index) or TestOutcome("internal_error", detail=fault[:200]) for index in range(count)
        )
        return _verdict(program, outcomes, usage, time.monotonic() - started, layers)

    def _worker(self, slot: int) -> Worker:
        worker = self._workers[slot]
        if worker is None:
            worker = self._workers[slot] = self._start_worker()
            lacking = self._layers_of_first.difference(worker.report.applied)
            if lacking:
                self._drop_worker(slot)
                raise WorkerLost(f"a new worker lacks layers that the first one has: {', '.join(sorted(lacking))}")
        return worker

    def _drop_worker(self, slot: int) -> None:
        worker, self._workers[slot] = self._workers[slot], None
        if worker is not None:
            worker.kill()


def _verdict(program: Program, outcomes: tuple[TestOutcome, ...], usage: Usage, seconds: float, layers: str) -> Verdict:
    pass_ratio, error_type = classify(outcomes, program.truncated)
    return Verdict(
        pass_ratio=pass_ratio,
        error_type=error_type,
        tests=outcomes,
        exec_time=usage.cpu,
        wall_time=seconds,
        peak_rss=usage.peak_rss,
        stdout=usage.stdout,
        stderr=usage.stderr,
        trusted_compare=all(outcome.trusted for outcome in outcomes),
        isolation=layers,
    )
