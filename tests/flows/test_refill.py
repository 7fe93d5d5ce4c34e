"""Sampling shard after shard while earlier ones are graded. Not covered: which groups are kept (tests/ares/step)."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

import flows.refill
from ares.grading import RewardError
from ares.store import Ref
from tasks.sampling import Draw, Rows
from tasks.training import Samples
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
    run = SimpleNamespace(progress=MagicMock(), cluster=MagicMock())
    step: Any = SimpleNamespace(config=config("rollout.shard_prompts=1"), timings={}, run=run)
    with pytest.raises(RewardError, match="KeyError: 'solution'"):
        asyncio.run(flows.refill.sample(step, "bootstrap", [str(name) for name in range(9)], version=0, n=1))
    assert shards == [0, 1]


@pytest.mark.parametrize(("more", "expected"), [([], [1, 2, None]), (["rollout.max_staleness=1"], [None] * 3)])
def test_the_engine_is_told_of_the_shard_that_follows_each(
    more: list[str], expected: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stale samples, draws of another step may come between."""
    told: list[int | None] = []

    step = _step(monkeypatch, *more)
    monkeypatch.setattr(flows.refill, "expect", lambda _, draw: told.append(draw and draw.shard))
    asyncio.run(flows.refill.sample(step, "bootstrap", ["0", "1", "2"], version=0, n=1))
    assert told == expected


def test_groups_are_chosen_while_the_learner_measures_them(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    measured = asyncio.Event()

    async def beside(rollouts: list[Ref]) -> None:
        events.append("measuring")
        await asyncio.wait_for(measured.wait(), 10)
        events.append("measured")

    def chosen(samples: Samples) -> None:
        events.append("chosen")
        measured.set()

    step = _step(monkeypatch)
    samples = asyncio.run(
        flows.refill.sample(step, "rollout", ["0", "1"], version=0, n=1, beside=beside, graded=chosen)
    )
    assert events == ["measuring", "chosen", "measured"]
    assert len(samples.scores) == 2
    assert step.timings["timing_s/scoring_wait"] == 0.0  # scores were there before the learner's measures


def test_what_runs_beside_grading_ends_when_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def beside(rollouts: list[Ref]) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def raising(step: Any, draw: Draw, rows: Rows, label: str) -> Rows:
        await asyncio.sleep(0.01)
        raise RewardError("own.py:3 in f: KeyError: 'solution'")

    step = _step(monkeypatch)
    monkeypatch.setattr(flows.refill, "score", raising)
    with pytest.raises(RewardError, match="KeyError: 'solution'"):
        asyncio.run(flows.refill.sample(step, "rollout", ["0"], version=0, n=1, beside=beside))
    assert ended == ["cancelled"]


def _step(monkeypatch: pytest.MonkeyPatch, *more: str) -> Any:
    """A step whose phases do nothing."""

    async def done(step: Any, draw: Draw, *rows: Rows, label: str) -> Rows:
        return Rows(rows=Ref(path="", sha256="", bytes=0))

    for name in ("rollout", "score"):
        monkeypatch.setattr(flows.refill, name, done)
    monkeypatch.setattr(flows.refill, "check_graded", lambda *_: None)
    run = SimpleNamespace(progress=MagicMock(), cluster=MagicMock())
    return SimpleNamespace(config=config("rollout.shard_prompts=1", *more), timings={}, run=run)
