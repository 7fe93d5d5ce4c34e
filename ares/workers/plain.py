"""Learner and engine in this process, taking turns on one thread: no Ray, and a breakpoint works anywhere.

Covered: one rank and one engine. Not covered: restarting after a death, since it is this process that dies.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import pandas as pd
import torch

from ares.config import Config, ConfigError
from ares.engines import Request, SamplingSettings
from ares.learner import UpdateResult
from ares.store import Ref, RunStore
from ares.workers.placement import uses_gpus
from ares.workers.services import EngineService, LearnerService
from ares.workers.workers import Finished, Workers

T = TypeVar("T")


class Turns:
    """One thread on which learner and engine work in turn, beside the loop: meanwhile responses are graded."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "learner-and-engine")

    async def take(self, threads: int, work: Callable[[], T]) -> T:
        """Do work with a number of torch threads, which is a setting of the calling thread."""

        def turn() -> T:
            torch.set_num_threads(threads)
            return work()

        return await asyncio.get_running_loop().run_in_executor(self._thread, turn)

    def end(self) -> None:
        """Wait for the work in progress, and let the thread end."""
        self._thread.shutdown(cancel_futures=True)


class PlainLearner:
    """The learner of this process. It is made by the first call."""

    def __init__(self, config: Config, store: RunStore, turns: Turns) -> None:
        self.config = config
        self.store = store
        self.turns = turns

    @cached_property
    def service(self) -> LearnerService:
        """The learner itself; loading it takes a while."""
        return LearnerService(self.config, self.store)

    async def started(self) -> None:
        """Load the model."""
        await self.call("version")

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the service."""
        return await self.turns.take(self.config.learner.threads, lambda: getattr(self.service, method)(*arguments))

    async def update(
        self, batch: Ref, beta: dict[str, Any] | None, progress: Callable[[int], None] | None
    ) -> UpdateResult:
        """One training step."""
        loop = asyncio.get_running_loop()

        def work() -> UpdateResult:
            for result in self.service.update(batch, beta):
                if isinstance(result, UpdateResult):
                    return result
                if progress is not None:
                    loop.call_soon_threadsafe(progress, result)
            raise AssertionError("an update ends with its result")

        return await self.turns.take(self.config.learner.threads, work)

    def weights(self) -> Any:
        """The weights themselves, which the engine copies before the next update; copies where it may load them later
        (rollout.max_staleness)."""
        if not self.config.rollout.max_staleness:
            return self.service.weights_in_place()
        return {name: array.copy() for name, array in self.service.weights().items()}

    def kill(self) -> None:
        """Free the memory."""
        vars(self).pop("service", None)


class PlainEngine:
    """The engine of this process. It is made by the first call."""

    def __init__(self, config: Config, turns: Turns) -> None:
        self.config = config
        self.turns = turns

    @cached_property
    def service(self) -> EngineService:
        """The engine itself; loading it takes a while."""
        return EngineService(self.config)

    async def _call(self, work: Callable[[], T]) -> T:
        return await self.turns.take(self.config.rollout.threads, work)

    async def started(self) -> None:
        """Load the model."""
        await self._call(lambda: self.service)

    async def load_weights(self, version: int, weights: Any) -> None:
        """Take over the weights of a version."""
        await self._call(lambda: self.service.load_weights(version, weights))

    async def generate(
        self, requests: list[Request], settings: SamplingSettings, finished: Finished | None
    ) -> pd.DataFrame:
        """One row a request, in order; `finished` is given them as they finish."""
        loop = asyncio.get_running_loop()

        def work() -> pd.DataFrame:
            parts = []
            for rows in self.service.generate(requests, settings):
                parts.append(rows)
                if finished is not None:
                    loop.call_soon_threadsafe(finished, rows)
            return pd.concat(parts).sort_index()

        return await self._call(work)

    async def sleep(self) -> None:
        """Free memory for the learner."""
        await self._call(lambda: self.service.sleep())

    def kill(self) -> None:
        """Free the memory."""
        vars(self).pop("service", None)


class PlainWorkers(Workers):
    """A learner and an engine in this process."""

    def __init__(self, config: Config, store: RunStore, sampling: Config | None = None) -> None:
        """Raises ConfigError for several ranks or engines."""
        super().__init__(config, store, sampling)
        if config.learner.ranks > 1 or config.rollout.engines > 1:
            raise ConfigError("Several ranks or engines need processes of their own: train without --plain")
        self._turns = Turns()

    @property
    def uses_gpus(self) -> bool:
        """Whether learner and engine are on a GPU."""
        return uses_gpus(self.config, torch.cuda.device_count())

    def _start(self) -> None:
        pass

    def _start_learner(self) -> PlainLearner:
        return PlainLearner(self.config, self.store, self._turns)

    def _start_engine(self) -> PlainEngine:
        return PlainEngine(self.sampling, self._turns)

    def close(self) -> None:
        """Wait for the work in progress, and free the memory."""
        self._turns.end()
        super().close()
