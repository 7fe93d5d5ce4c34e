"""Responses that had ended before a kill are not sampled again, where the others do not depend on them."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ares.engines import Request, SamplingSettings
from ares.runs.run import Run
from ares.store import RunStore
from ares.workers import PlainWorkers
from tasks.sampling import Draw, Rows, rollout
from tests.ares.builders import config


class Killed(BaseException):
    """What a process that is killed meets, where the test lives on."""


class Cluster:
    """Answers two requests at a time, each by its seed alone, and is killed after so many."""

    answers_parts = True

    def __init__(self, dies_after: int | None = None) -> None:
        self.dies_after = dies_after
        self.asked: list[int] = []
        self.ended: list[int] = []
        """Seeds."""

    async def sample(
        self, version: int, requests: list[Request], settings: SamplingSettings,
        finished: Callable[[pd.DataFrame], None], averaged: bool,
    ) -> pd.DataFrame:  # fmt: skip
        self.asked += [request.seed for request in requests]
        parts = []
        order = list(reversed(range(len(requests))))
        for first in range(0, len(order), 2):
            if self.dies_after is not None and first >= self.dies_after:
                raise Killed
            places = order[first : first + 2]
            parts.append(pd.DataFrame([answer(requests[place].seed) for place in places], index=places))
            finished(parts[-1])
            self.ended += [requests[place].seed for place in places]
        return pd.concat(parts).sort_index()


def answer(seed: int) -> dict[str, Any]:
    return {
        "response": f"{seed % 10}",
        "token_ids": np.array([seed % 300, 1], dtype=np.int32),
        "log_probs": np.array([-(seed % 7) / 3, -0.5], dtype=np.float32),
        "finish_reason": "stop",
    }


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run.open(config(), "here", tmp_path)
    yield run
    run.grader.close()


def sampled(run: Run, cluster: Cluster, greedy: bool = False, **changed: Any) -> Rows | None:
    """The rollout of two problems with three samples each; None: killed."""
    run.workers = cluster  # type: ignore[assignment]
    ids = run.train_set.frame["id"].tolist()[:2]
    draw = Draw(version=0, purpose="rollout", shard=0, first_slot=0, ids=ids, n=3, temperature=1.0, greedy=greedy)
    try:
        return asyncio.run(rollout.function(run.step(1), draw.model_copy(update=changed)))
    except Killed:
        return None


@pytest.mark.parametrize(("greedy", "dies_after"), [(False, 2), (True, 4)])
def test_only_the_unfinished_responses_are_lost(run: Run, dies_after: int, greedy: bool) -> None:
    whole = Cluster()
    expected = sampled(run, whole, greedy)
    assert expected is not None
    (run.store.directory / expected.rows.path).unlink()

    killed, rest = Cluster(dies_after), Cluster()
    assert sampled(run, killed, greedy) is None
    (journal,) = (run.store.directory / "steps/000001").glob("*.journal")
    assert sampled(run, rest, greedy) == expected  # its hash is part of it
    assert len(killed.ended) == dies_after + 2 * greedy
    assert sorted(rest.asked) == sorted(set(whole.asked) - set(killed.ended))
    assert not journal.exists()


def test_a_kill_after_the_last_response_asks_for_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run.store, "write_rows", full)
        assert sampled(run, Cluster()) is None
    rest = Cluster()
    found = sampled(run, rest)
    assert found is not None
    assert rest.asked == []
    assert run.store.read_rows(found.rows)["response"].map(len).tolist() == [1] * 6


def test_where_bits_depend_on_neighbours_the_shard_is_sampled_whole(run: Run) -> None:
    apart = Cluster(4)
    apart.answers_parts = False
    assert sampled(run, apart) is None
    assert not list(run.store.directory.rglob("*.journal"))
    again = Cluster()
    again.answers_parts = False
    assert sampled(run, again) is not None
    assert len(again.asked) == 6


def test_an_engine_says_that_its_responses_do_not_depend_on_each_other(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "from ares.engines import TransformersEngine\nclass Own(TransformersEngine):\n    independent = True"
    )
    for engine, is_independent in (("transformers", False), (f"{own}:Own", True)):
        workers = PlainWorkers(config(f"rollout.engine={engine}"), RunStore(tmp_path))
        assert workers.answers_parts is is_independent
