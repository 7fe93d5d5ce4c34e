"""Sampling that is under way before anybody asks for it. Not covered: what comes next (flows/), the engines' turns."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pandas as pd

from ares.engines import Request, SamplingSettings

Asked = tuple[int, list[Request], SamplingSettings]
"""Of a call: policy version, requests, settings."""
Finished = Callable[[pd.DataFrame], None]
"""Is given rows as they finish, indexed by request."""


class Prefetch:
    """The rows of a call; what finishes is kept until somebody asks for it."""

    def __init__(self, asked: Asked, sample: Callable[[Asked, Finished], Coroutine[Any, Any, pd.DataFrame]]) -> None:
        self.asked = asked
        self.early: list[pd.DataFrame] = []
        self._finished: Finished = self.early.append
        self.rows = asyncio.create_task(sample(asked, lambda rows: self._finished(rows)))
        self.rows.add_done_callback(lambda rows: rows.cancelled() or rows.exception())  # nobody need ask for it

    def tell(self, finished: Finished) -> None:
        """Give `finished` what has finished, and what will."""
        for rows in self.early:
            finished(rows)
        self._finished = finished
