"""Several actors called as one: the learner's ranks, which compute together, and the engines, which share requests."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import ray
from ray.exceptions import RayActorError

from ares.engines import Request, SamplingSettings

GRACE = 10.0
"""Seconds in which the death of a rank is waited for after another one complained of a lost connection."""


class LearnerGroup:
    """The learner's ranks. Every rank is called alike; what the first one returns is the answer."""

    def __init__(self, actors: list[Any]) -> None:
        self.actors = actors
        self._joining: list[Any] = []
        if len(actors) > 1:
            address = actors[0].address.remote()
            self._joining = [actor.join.remote(address) for actor in actors]

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call every rank and wait for all. Raises RayActorError when one died, whatever the others say of it."""
        joining, self._joining = self._joining, []
        if joining:
            await _all(joining)
        return (await _all([getattr(actor, method).remote(*arguments) for actor in self.actors]))[0]

    def weights(self) -> Any:
        """A reference to the policy's weights, which go to the engines without passing through this process."""
        for actor in self.actors[1:]:
            actor.contribute.remote()
        return self.actors[0].weights.remote()

    def has(self, actor_id: str | None) -> bool:
        """Whether an actor, by the hexadecimal name that Ray gives it, is one of the ranks."""
        return _is_one(self.actors, actor_id)

    def kill(self) -> None:
        """Let the ranks go."""
        for actor in self.actors:
            ray.kill(actor)


class EngineGroup:
    """The engines. Each gets a fixed part of every call's requests, so its batches are the same in a repeated call."""

    def __init__(self, actors: list[Any]) -> None:
        self.actors = actors

    async def load_weights(self, version: int, weights: Any) -> None:
        """Hand every engine the weights of a version (a reference)."""
        await _all([actor.load_weights.remote(version, weights) for actor in self.actors])

    async def sleep(self) -> None:
        """Have every engine give back the memory it shares with the learner."""
        await _all([actor.sleep.remote() for actor in self.actors])

    async def generate(
        self, requests: list[Request], settings: SamplingSettings, finished: Callable[[pd.DataFrame], None] | None
    ) -> pd.DataFrame:
        """One row a request, in order; `finished` is given them as they finish, indexed by request."""

        async def of_one(actor: Any, indices: np.ndarray) -> list[pd.DataFrame]:
            parts: list[pd.DataFrame] = []
            async for reference in actor.generate.remote([requests[index] for index in indices], settings):
                rows = await reference
                rows.index = indices[rows.index]
                parts.append(rows)
                if finished is not None:
                    finished(rows)
            return parts

        shares = np.array_split(np.arange(len(requests)), len(self.actors))
        parts_of = await asyncio.gather(
            *(of_one(actor, share) for actor, share in zip(self.actors, shares, strict=True) if len(share))
        )
        return pd.concat([part for parts in parts_of for part in parts]).sort_index()

    def has(self, actor_id: str | None) -> bool:
        """Whether an actor, by the hexadecimal name that Ray gives it, is one of the engines."""
        return _is_one(self.actors, actor_id)

    def kill(self) -> None:
        """Let the engines go."""
        for actor in self.actors:
            ray.kill(actor)


def _is_one(actors: list[Any], actor_id: str | None) -> bool:
    return actor_id in [actor._actor_id.hex() for actor in actors]


async def _all(references: list[Any]) -> list[Any]:
    """The results of calls that wait for each other; of several errors, the death of an actor is the cause."""
    tasks = [asyncio.ensure_future(_awaited(reference)) for reference in references]
    done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    errors = [error for task in done if (error := task.exception())]
    if errors and waiting and not any(isinstance(error, RayActorError) for error in errors):
        done, waiting = await asyncio.wait(tasks, timeout=GRACE)
        errors = [error for task in done if (error := task.exception())]
    for task in waiting:
        task.cancel()
    if errors:
        raise next((error for error in errors if isinstance(error, RayActorError)), errors[0])
    return [task.result() for task in tasks]


async def _awaited(reference: Any) -> Any:
    return await reference
