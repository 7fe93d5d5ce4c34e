"""How long to wait for an actor that neither answers nor dies: one whose device is stuck, or whose process was stopped.

Not covered: an actor that does not come up on a cluster, since it may be waiting for room there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

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
