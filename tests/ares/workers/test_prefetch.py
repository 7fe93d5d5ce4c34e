"""Sampling that starts before it is asked for. Not covered: engines (test_cluster.py)."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ares.engines import SamplingSettings
from ares.store.store import RunStore
from ares.workers.cluster import Cluster
from ares.workers.prefetch import Asked, Finished, Prefetch
from tests.ares.builders import config

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


def test_what_was_begun_and_is_not_asked_for_makes_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = [], []

    async def endless(self: Cluster, asked: Asked, finished: Finished) -> pd.DataFrame:
        begun.append(asked[0])
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(asked[0])
        raise AssertionError

    async def body() -> None:
        cluster = Cluster(config(), RunStore(tmp_path))
        for version in (1, 2):
            cluster.begin(version, *ASKED[1:])
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (begun, ended) == ([1, 2], [1])

    monkeypatch.setattr(Cluster, "_generate", endless)
    asyncio.run(body())
