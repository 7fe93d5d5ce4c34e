"""Sampling that is under way before anybody asks for it. Not covered: engines (test_cluster.py)."""

import asyncio
import gc
from typing import Any

import pandas as pd

from ares.engines import SamplingSettings
from ares.workers.prefetch import Asked, Finished, Prefetch

ASKED: Asked = (0, [], SamplingSettings(1.0, 1.0, 8))


def test_what_finished_before_anybody_asked_is_told_first() -> None:
    async def body() -> list[int]:
        asked_for, told = asyncio.Event(), []

        async def sample(asked: Asked, finished: Finished) -> pd.DataFrame:
            finished(pd.DataFrame({"row": [0]}))
            await asked_for.wait()
            finished(pd.DataFrame({"row": [1]}))
            return pd.DataFrame({"row": [0, 1]})

        prefetch = Prefetch(ASKED, sample)
        await asyncio.sleep(0)
        prefetch.tell(lambda rows: told.extend(rows["row"]))
        asked_for.set()
        await prefetch.rows
        return told

    assert asyncio.run(body()) == [0, 1]


def test_one_that_fails_and_that_nobody_asks_for_says_nothing() -> None:
    said: list[dict[str, Any]] = []

    async def sample(asked: Asked, finished: Finished) -> pd.DataFrame:
        raise RuntimeError("the engine died")

    async def body() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        prefetch = Prefetch(ASKED, sample)
        await asyncio.wait([prefetch.rows])
        del prefetch
        gc.collect()

    asyncio.run(body())
    assert said == []
