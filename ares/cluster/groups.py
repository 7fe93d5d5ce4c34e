"""Several actors called as one: the learner's ranks, which compute together, and the engines, which share requests.

Covered: how long to wait for one that neither answers nor dies, as one whose device is stuck or whose process was
stopped. Not covered: one that does not come up on a cluster, since it may be waiting for room there.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import ray

from ares.cluster.failures import DEATHS
from ares.engines import Request, SamplingSettings

GRACE = 10.0
"""Seconds to wait for a rank's death to be reported after another rank has lost its connection."""
SILENCE = 3600.0
"""Seconds without an answer, or without its next part, after which an actor counts as hung."""


class ActorHung(Exception):
    """An actor did not answer in time. `actor_id`: its hexadecimal id."""

    def __init__(self, message: str, actor_id: str) -> None:
        super().__init__(message)
        self.actor_id = actor_id


class Patience:
    """The limit of a run's calls. It doubles whenever it expires: the next actor may be as slow."""

    def __init__(self) -> None:
        self._doubled = 0

    @asynccontextmanager
    async def waiting(self, call: str, actor_id: str) -> AsyncIterator[Callable[[], None]]:
        """Await an answer inside, calling the yielded function for every part that comes. Raises ActorHung."""
        before = self._doubled
        clock, limit = asyncio.get_running_loop().time, SILENCE * 2.0**before
        try:
            async with asyncio.timeout(limit) as timeout:
                yield lambda: timeout.reschedule(clock() + limit)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            self._doubled = max(self._doubled, before + 1)  # several calls may expire in one stall
            raise ActorHung(f"no answer to `{call}` within {limit:.0f} s", actor_id) from error


class Group:
    """Actors that are called as one: every one gets the same calls, and the first one's result is returned.

    Calls raise one of DEATHS when an actor died, whatever the others raise because of it, and ActorHung.
    """

    def __init__(self, actors: list[Any], patience: Patience) -> None:
        self.actors = actors
        self._patience = patience
        self._starting = {"start": [actor.__ray_ready__.remote() for actor in actors]}

    async def started(self) -> None:
        """Wait until every actor is ready; on a cluster, however long it has no room for them."""
        for call, references in self._starting.items():
            endless = call == "start" and os.environ.get("RAY_ADDRESS")
            async with nullcontext() if endless else self._patience.waiting(call, name_of(self.actors[0])):
                await _all(references)
        self._starting = {}

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of every actor and wait for all."""
        await self.started()
        suspect = "" if method == "load_weights" else name_of(self.actors[0])  # it may be the learner that hangs
        async with self._patience.waiting(method, suspect):
            return (await _all([getattr(actor, method).remote(*arguments) for actor in self.actors]))[0]

    async def stream(self, told: Callable[[Any], None], method: str, *arguments: Any) -> list[Any]:
        """All that a method of the first actor yields; `told` is given each as it comes."""
        await self.started()
        tell_of = [told, *[lambda part: None] * (len(self.actors) - 1)]
        streams = [getattr(actor, method).remote(*arguments) for actor in self.actors]
        calls = zip(tell_of, self.actors, streams, strict=True)
        return (await _all([self._parts(method, *call) for call in calls]))[0]

    async def _parts(self, method: str, told: Callable[[Any], None], actor: Any, references: Any) -> list[Any]:
        parts = []
        async with self._patience.waiting(method, name_of(actor)) as came:
            async for reference in references:
                parts.append(await reference)
                came()
                told(parts[-1])
        return parts

    def has(self, actor_id: str | None) -> bool:
        """Whether an actor, by its hexadecimal id, is one of them."""
        return actor_id in [name_of(actor) for actor in self.actors]

    def kill(self) -> None:
        """Kill the actors."""
        for actor in self.actors:
            ray.kill(actor)


class LearnerGroup(Group):
    """The learner's ranks, which compute together."""

    def __init__(self, actors: list[Any], patience: Patience) -> None:
        super().__init__(actors, patience)  # asks whether they are ready before they join, which has its own limit
        if len(actors) > 1:
            address = actors[0].address.remote()
            self._starting["join"] = [actor.join.remote(address) for actor in actors]

    def weights(self, averaged: bool = False) -> Any:
        """A reference to the policy's weights, or their average, which never pass through this process."""
        first, *_ = [actor.weights.remote(averaged) for actor in self.actors]
        return first


class EngineGroup(Group):
    """The engines. Each gets a fixed part of every call's requests, so its batches are the same in a repeated call."""

    async def stream(
        self, told: Callable[[Any], None], method: str, requests: list[Request], settings: SamplingSettings
    ) -> list[pd.DataFrame]:
        """The rows of all engines, indexed by request; `told` is given them as they come."""

        def tell(share: np.ndarray, rows: pd.DataFrame) -> None:
            rows.index = share[rows.index]
            told(rows)

        shares = np.array_split(np.arange(len(requests)), len(self.actors))
        # Every call is made before anything is awaited: a learner on the same GPU would put the engines to sleep first.
        calls = [
            (partial(tell, share), actor, getattr(actor, method).remote([requests[i] for i in share], settings))
            for actor, share in zip(self.actors, shares, strict=True)
            if len(share)
        ]
        parts_of = await asyncio.gather(*(self._parts(method, *call) for call in calls))
        return [part for parts in parts_of for part in parts]


def name_of(actor: Any) -> str:
    """An actor's hexadecimal id, as in Ray's errors."""
    return str(actor._actor_id.hex())


async def _all(references: list[Any]) -> list[Any]:
    """Await calls that depend on each other; of several errors, raise the death of an actor."""
    tasks = [asyncio.ensure_future(reference) for reference in references]
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
