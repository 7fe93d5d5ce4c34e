"""Who shows, times and retries the parts of a run; the loop (flows/train.py) works the same under each.

Covered: plain awaits, which need nothing but this process; progress within a step. Not covered: Prefect's
(flows/prefect_conductor.py), the display (ares/reports/terminal.py).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ares.errors import UserError

logger = logging.getLogger(__name__)
R = TypeVar("R")
RETRY_SECONDS = 2.0
"""Between a phase's failure and its next attempt: a grader's service may have been restarted by then."""


class Conductor:
    """Runs the parts of a run for the loop: here with plain awaits."""

    async def step(self, title: str, number: int, work: Callable[[], Awaitable[None]]) -> None:
        """Run a step, the bootstrap (0) too."""
        await work()

    async def phase(self, title: str, work: Callable[[], Awaitable[R]], retries: int) -> R:
        """Run a phase of a step, again after an error at most `retries` times."""
        for attempt in range(retries):
            try:
                return await work()
            except Exception as error:
                if not getattr(error, "may_pass", True):  # a grader says so of its own (ares.grading.RewardError)
                    raise
                logger.warning("%s failed and is tried again (%d of %d): %s", title, attempt + 1, retries, error)
                await asyncio.sleep(RETRY_SECONDS)
        return await work()

    def warn(self, run: str, kind: str, text: str) -> None:
        """Tell people of something in a run that they should look at."""
        logger.warning("%s: %s", run, text)

    def pause(self, text: str) -> None:
        """End the run until a person resumes it. Raises UserError."""
        raise UserError(text)


class Progress:
    """Counts by part: responses sampled, optimiser steps done. `watch` is called on each change."""

    def __init__(self) -> None:
        self.watch: Callable[[str, int, int], None] = lambda part, done, total: None
        """Takes a part, its count so far, and its total."""
        self._parts: dict[str, tuple[int, int]] = {}

    def begin(self, part: str, total: int) -> None:
        """Begin a part, or begin it anew, as when more is drawn to fill a batch."""
        self._parts[part] = (0, total)
        self.watch(part, 0, total)

    def reach(self, part: str, done: int) -> None:
        """Raise the count of a part, if it has begun."""
        if part in self._parts:
            before, total = self._parts[part]
            self._parts[part] = (min(max(before, done), total), total)
            self.watch(part, *self._parts[part])

    def add(self, part: str, count: int) -> None:
        """Add to the count of a part."""
        self.reach(part, self._parts.get(part, (0, 0))[0] + count)
