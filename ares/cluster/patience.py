"""How long to wait for an actor: ten times the longest such call so far, and ten minutes at least.

Covered: an actor that neither answers nor dies, such as one whose device is stuck or whose process was stopped. Not
covered: one that does not come up on a cluster, since it may be waiting for room there.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

FACTOR = 10.0
LEAST = 600.0
FIRST = 3600.0
"""Seconds for the first call of a kind."""
QUEUED = ("start", "join", "notes", "version")
"""Calls for which that limit never changes: they wait for what the actor was doing before (loading, an update whose
caller was cancelled), so how long earlier ones took says little."""


class ActorHung(Exception):
    """An actor did not answer in time. `actor_id`: its hexadecimal id."""

    def __init__(self, message: str, actor_id: str) -> None:
        super().__init__(message)
        self.actor_id = actor_id


class Patience:
    """The limits of a run's calls, by method. A limit doubles whenever it expires."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._largest: dict[str, int] = {}
        self._ended: Counter[str] = Counter()

    def limit(self, call: str, size: int = 1) -> float:
        """Seconds to wait for the answer to a call, or for the next part of it. size: of its data, in any unit."""
        if call in QUEUED or call not in self._longest:
            return FIRST * 2.0 ** self._ended[call]
        larger = max(1.0, size / self._largest[call])  # a training batch, than a shard of the bootstrap
        return max(LEAST, FACTOR * self._longest[call] * larger) * 2.0 ** self._ended[call]

    @asynccontextmanager
    async def waiting(self, call: str, actor_id: str, size: int = 1) -> AsyncIterator[Callable[[], None]]:
        """Await an answer inside, calling the yielded function for every part that comes. Raises ActorHung."""
        clock = asyncio.get_running_loop().time
        since, limit = clock(), self.limit(call, size)

        def came() -> None:
            nonlocal since
            self._longest[call] = max(self._longest.get(call, 0.0), clock() - since)
            self._largest[call] = max(self._largest.get(call, 1), size)
            since = clock()
            timeout.reschedule(since + limit)

        try:
            async with asyncio.timeout(limit) as timeout:
                yield came
                came()
        except TimeoutError as error:
            if not timeout.expired():
                raise
            self._ended[call] += 1
            raise ActorHung(f"no answer to `{call}` within {limit:.0f} s", actor_id) from error
