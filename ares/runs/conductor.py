"""Who shows, times and retries the parts of a run; the loop (flows/train.py) works the same under each.

Covered: plain awaits, which need nothing but this process. Not covered: Prefect's (flows/prefect_conductor.py).
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
