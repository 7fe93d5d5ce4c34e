"""Sampling that starts before it is asked for. Not covered: what will be asked for (flows/), the engines' turns."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pandas as pd

from ares.engines import Request, SamplingSettings

Asked = tuple[int, list[Request], SamplingSettings]
"""Of a call: policy version, requests, settings."""
Finished = Callable[[pd.DataFrame], None]
"""Called with rows as they finish, indexed by request."""


class Prefetch:
    """The rows of a call; those that finish are kept until they are asked for."""

    def __init__(self, asked: Asked, sample: Callable[[Asked, Finished], Coroutine[Any, Any, pd.DataFrame]]) -> None:
        self.asked = asked
        self.early: list[pd.DataFrame] = []
        self._finished: Finished = self.early.append
        self.rows = asyncio.create_task(sample(asked, lambda rows: self._finished(rows)))
        self.rows.add_done_callback(lambda rows: rows.cancelled() or rows.exception())  # an error need not be retrieved

    def tell(self, finished: Finished) -> None:
        """Call `finished` with the rows that have finished, and with all that follow."""
        for rows in self.early:
            finished(rows)
        self._finished = finished
