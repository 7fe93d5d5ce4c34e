"""Learner and engine in this process, taking turns on one thread: no Ray, and a breakpoint works in both.

Covered: one rank and one engine. Not covered: restarting after a death, since it is this process that dies.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import set_num_threads  # this one: on a CPU, vLLM puts another in its place, which does nothing

from ares.config import Config, ConfigError
from ares.store import RunStore
from ares.workers.placement import uses_gpus
from ares.workers.services import EngineService, LearnerService
from ares.workers.workers import Workers

T = TypeVar("T")


class InProcess:
    """A service in this process: it is made by the first call, which takes a while.

    turns: the one thread on which learner and engine work, beside the loop: meanwhile responses are graded.
    """

    def __init__(self, make: Callable[[], Any], threads: int, turns: ThreadPoolExecutor) -> None:
        self._make = make
        self._threads = threads
        self._turns = turns

    @cached_property
    def service(self) -> Any:
        """The learner or engine itself."""
        return self._make()

    async def started(self) -> None:
        """Load the model."""
        await self.call("version")

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the service."""
        return await self._take_turn(lambda: getattr(self.service, method)(*arguments))

    async def stream(self, told: Callable[[Any], None], method: str, *arguments: Any) -> list[Any]:
        """All that a method of the service yields; `told` is given each as it comes."""
        loop, failed = asyncio.get_running_loop(), list[Exception]()

        def tell(part: Any) -> None:
            try:
                told(part)
            except Exception as error:  # noqa: BLE001 (raised below, not by the event loop)
                failed.append(error)

        def work() -> list[Any]:
            parts = []
            for part in getattr(self.service, method)(*arguments):
                parts.append(part)
                loop.call_soon_threadsafe(tell, part)
            return parts

        parts = await self._take_turn(work)
        if failed:
            raise failed[0]
        return parts

    async def _take_turn(self, work: Callable[[], T]) -> T:
        def turn() -> T:
            set_num_threads(self._threads)  # a setting of the calling thread
            return work()

        return await asyncio.get_running_loop().run_in_executor(self._turns, turn)

    def kill(self) -> None:
        """Free the memory."""
        vars(self).pop("service", None)


class LearnerInProcess(InProcess):
    """The learner of this process, which hands over its weights."""

    def weights(self, averaged: bool = False) -> Any:
        """The weights, which the next update changes, or their average; copies where the engine may need them longer
        (rollout.max_staleness)."""
        weights, stale = self.service.weights(averaged), self.service.config.rollout.max_staleness > 0
        return {name: array.copy() for name, array in weights.items()} if stale else weights


class PlainWorkers(Workers):
    """A learner and an engine in this process."""

    def __init__(self, config: Config, store: RunStore, sampling: Config | None = None) -> None:
        """Raises ConfigError for several ranks or engines."""
        super().__init__(config, store, sampling)
        if config.learner.ranks > 1 or config.rollout.engines > 1:
            raise ConfigError("Several ranks or engines need processes of their own: train without --plain")
        self._turns = ThreadPoolExecutor(1, "learner-and-engine")

    @property
    def uses_gpus(self) -> bool:
        """Whether learner and engine are on a GPU."""
        return uses_gpus(self.config, torch.cuda.device_count())

    def _start_learner(self) -> LearnerInProcess:
        threads = self.config.learner.threads
        return LearnerInProcess(lambda: LearnerService(self.config, self.store), threads, self._turns)

    def _start_engine(self) -> InProcess:
        threads = self.sampling.rollout.threads
        return InProcess(lambda: EngineService(self.sampling, borrows=True), threads, self._turns)

    def close(self) -> None:
        """Wait for the work in progress, and free the memory."""
        self._turns.shutdown(cancel_futures=True)
        super().close()
