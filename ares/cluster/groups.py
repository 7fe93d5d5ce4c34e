"""Several actors called as one: the learner's ranks, which compute together, and the engines, which share requests."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import ray

from ares.cluster.failures import DEATHS
from ares.cluster.patience import Patience
from ares.engines import Request, SamplingSettings
from ares.learner import UpdateResult
from ares.store import Ref

GRACE = 10.0
"""Seconds to wait for a rank's death to be reported after another rank has lost its connection."""


class _Group:
    """Actors that are called as one."""

    def __init__(self, actors: list[Any], patience: Patience) -> None:
        self.actors = actors
        self._patience = patience
        self._ready = [actor.__ray_ready__.remote() for actor in actors]

    async def started(self) -> None:
        """Wait until every actor is ready; on a cluster, however long it has no room for them."""
        if self._ready and os.environ.get("RAY_ADDRESS"):
            await _all(self._ready)
        elif self._ready:
            async with self._patience.waiting("start", name_of(self.actors[0])):
                await _all(self._ready)
        self._ready = []

    def has(self, actor_id: str | None) -> bool:
        """Whether an actor, by its hexadecimal id, is one of them."""
        return actor_id in [name_of(actor) for actor in self.actors]

    def kill(self) -> None:
        """Kill the actors."""
        for actor in self.actors:
            ray.kill(actor)


class LearnerGroup(_Group):
    """The learner's ranks. Every rank gets the same calls; the first one's result is returned."""

    def __init__(self, actors: list[Any], patience: Patience) -> None:
        super().__init__(actors, patience)  # asks whether they are ready before they join, which has its own limit
        self._joining: list[Any] = []
        if len(actors) > 1:
            address = actors[0].address.remote()
            self._joining = [actor.join.remote(address) for actor in actors]

    async def started(self) -> None:
        """Wait until every rank has loaded the model."""
        await super().started()
        if self._joining:
            async with self._patience.waiting("join", name_of(self.actors[0])):
                await _all(self._joining)
        self._joining = []

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call every rank and wait for all.

        Raises one of DEATHS when one died, whatever the others raise because of it, and ActorHung.
        """
        await self.started()
        async with self._patience.waiting(method, name_of(self.actors[0])):
            return (await _all([getattr(actor, method).remote(*arguments) for actor in self.actors]))[0]

    async def update(
        self, batch: Ref, beta: dict[str, Any] | None, progress: Callable[[int], None] | None = None
    ) -> UpdateResult:
        """One training step of every rank; `progress` is told how many optimiser steps the first has done.

        Raises one of DEATHS and ActorHung.
        """

        async def of_one(actor: Any) -> Any:
            result: Any = None
            async for reference in actor.update.remote(batch, beta):
                result = await reference
                if actor is self.actors[0] and isinstance(result, int):
                    came()
                    if progress is not None:
                        progress(result)
            return result

        await self.started()
        async with self._patience.waiting("update", name_of(self.actors[0])) as came:
            return (await _all([of_one(actor) for actor in self.actors]))[0]

    def weights(self, averaged: bool = False) -> Any:
        """A reference to the policy's weights, or their average, which never pass through this process."""
        for actor in self.actors[1:]:
            actor.contribute.remote(averaged)
        return self.actors[0].weights.remote(averaged)


class EngineGroup(_Group):
    """The engines. Each gets a fixed part of every call's requests, so its batches are the same in a repeated call."""

    async def load_weights(self, version: int, weights: Any) -> None:
        """Hand every engine the weights of a version. Raises one of DEATHS or ActorHung."""
        await self.started()
        async with self._patience.waiting("load_weights", ""):  # it may be the learner that hangs
            await _all([actor.load_weights.remote(version, weights) for actor in self.actors])

    async def sleep(self) -> None:
        """Have every engine free the GPU memory that the learner needs."""
        async with self._patience.waiting("sleep", name_of(self.actors[0])):
            await _all([actor.sleep.remote() for actor in self.actors])

    async def generate(
        self, requests: list[Request], settings: SamplingSettings, finished: Callable[[pd.DataFrame], None] | None
    ) -> pd.DataFrame:
        """One row a request, in order; `finished` is given them as they finish, indexed by request.

        Raises one of DEATHS or ActorHung.
        """

        async def of_one(actor: Any, answers: Any, indices: np.ndarray) -> list[pd.DataFrame]:
            parts: list[pd.DataFrame] = []
            async with self._patience.waiting("generate", name_of(actor)) as came:
                async for reference in answers:
                    rows = await reference
                    came()
                    rows.index = indices[rows.index]
                    parts.append(rows)
                    if finished is not None:
                        finished(rows)
            return parts

        shares = np.array_split(np.arange(len(requests)), len(self.actors))
        # Every call is made before anything is awaited: a learner on the same GPU would put the engines to sleep first.
        calls = [
            (actor, actor.generate.remote([requests[index] for index in share], settings), share)
            for actor, share in zip(self.actors, shares, strict=True)
            if len(share)
        ]
        parts_of = await asyncio.gather(*(of_one(*call) for call in calls))
        return pd.concat([part for parts in parts_of for part in parts]).sort_index()


def name_of(actor: Any) -> str:
    """An actor's hexadecimal id, as in Ray's errors."""
    return str(actor._actor_id.hex())


async def _all(references: list[Any]) -> list[Any]:
    """Await calls that depend on each other; of several errors, raise the death of an actor."""
    tasks = [asyncio.ensure_future(_awaited(reference)) for reference in references]
    if not tasks:
        return []
    try:
        done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        errors = [error for task in done if (error := task.exception())]
        if errors and waiting and not any(isinstance(error, DEATHS) for error in errors):
            done, waiting = await asyncio.wait(tasks, timeout=GRACE)
            errors = [error for task in done if (error := task.exception())]
    finally:
        for task in tasks:
            task.cancel()
    if errors:
        raise next((error for error in errors if isinstance(error, DEATHS)), errors[0])
    return [task.result() for task in tasks]


async def _awaited(reference: Any) -> Any:
    return await reference
