"""Semaphores of `multiprocessing` for one process: those of the C library need /dev/shm, and a program starts none.

So ThreadPool, multiprocessing.dummy, Lock, Queue and Value work between a program's threads.
"""

import _multiprocessing  # type: ignore[import-not-found]
import importlib
import threading
from types import TracebackType
from typing import Any

_RECURSIVE = 0  # kind: the thread that has it may take it again


class SemLock:
    """In place of `_multiprocessing.SemLock`, with the same interface."""

    SEM_VALUE_MAX = (1 << 31) - 1
    handle = 0

    def __init__(self, kind: int, value: int, maxvalue: int, name: str, unlink: bool = True) -> None:
        self.kind, self.maxvalue, self.name = kind, maxvalue, None  # a named one would be tracked by another process
        self._value = value
        self._owner, self._times = 0, 0  # the thread that took it last, and how often
        self._freed = threading.Condition()

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:
        """Whether it was taken in time."""
        with self._freed:
            if self.kind == _RECURSIVE and self._is_mine():
                self._times += 1
                return True
            if not self._freed.wait_for(lambda: self._value > 0, (timeout if block else 0)):
                return False
            self._value, self._owner, self._times = self._value - 1, threading.get_ident(), self._times + 1
            return True

    def release(self) -> None:
        """Raises ValueError or AssertionError, as the original, for what was not taken."""
        with self._freed:
            if self.kind == _RECURSIVE and not self._is_mine():
                raise AssertionError("attempt to release recursive lock not owned by thread")
            if self.kind != _RECURSIVE and self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            self._times -= 1
            if self.kind != _RECURSIVE or self._times == 0:
                self._value += 1
                self._freed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _count(self) -> int:
        return self._times

    def _is_mine(self) -> bool:
        return self._times > 0 and self._owner == threading.get_ident()

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0


def install() -> None:
    """Have `multiprocessing` use these."""
    module: Any = _multiprocessing
    module.SemLock = SemLock
    heap: Any = importlib.import_module("multiprocessing.heap")
    heap.Arena._dir_candidates = []  # not /dev/shm, but the folder of temporary files
