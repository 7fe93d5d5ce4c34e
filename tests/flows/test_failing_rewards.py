"""Sampling shard after shard beside their grading. Not covered: which groups are kept (tests/ares/step)."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import flows.refill
from ares.grading import RewardError
from ares.store import Ref
from tasks.sampling import Draw, Rows
from tests.ares.builders import config


def test_a_reward_that_raises_ends_a_draw_at_the_next_shard_and_not_after_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shards: list[int] = []

    async def rollout(step: Any, draw: Draw, label: str) -> Rows:
        shards.append(draw.shard)
        await asyncio.sleep(0)  # where an engine generates
        return Rows(rows=Ref(path="", sha256="", bytes=0))

    async def score(step: Any, draw: Draw, rows: Rows, label: str) -> Rows:
        raise RewardError("own.py:3 in f: KeyError: 'solution'")

    monkeypatch.setattr(flows.refill, "rollout", rollout)
    monkeypatch.setattr(flows.refill, "score", score)
    run = SimpleNamespace(progress=MagicMock())
    step: Any = SimpleNamespace(config=config("rollout.shard_prompts=1"), timings={}, run=run)
    with pytest.raises(RewardError, match="KeyError: 'solution'"):
        asyncio.run(flows.refill.sample(step, "bootstrap", [str(name) for name in range(9)], version=0, n=1))
    assert shards == [0, 1]
