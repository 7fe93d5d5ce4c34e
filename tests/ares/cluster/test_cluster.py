"""Actors that die are rebuilt from the run directory, at the weights they had, and the phase continues.

Actors of tests are classes inside a function, which Ray ships by value: it would import this file, and with it torch
and transformers, for others.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import ray

from ares.cluster.cluster import Cluster
from ares.cluster.connection import connect
from ares.cluster.failures import WorkerError
from ares.engines.engine import Request, SamplingSettings
from ares.runs.run import Run
from ares.store import read_config
from ares.store.store import RunStore
from tasks.sampling import Draw, request_rows


@pytest.fixture(scope="module")
def one_ray() -> Iterator[None]:
    """One local Ray with room for the actors of two runs, without which each run would start its own."""
    connect(cpus=4)
    yield
    ray.shutdown()


@contextmanager
def opened(runs: Path) -> Iterator[Run]:
    run = Run.open(read_config(RunStore(runs / "uninterrupted")), "uninterrupted", runs, Cluster)
    yield run
    run.workers.shut_down()


@pytest.fixture
def run(runs: Path, one_ray: None) -> Iterator[Run]:
    """The run as a new process finds it."""
    with opened(runs) as run:
        yield run


@pytest.fixture(scope="module")
def run_at_2(runs: Path, one_ray: None) -> Iterator[Run]:
    """The run for the tests that all sample from the policy after step 2: its actors, once started, serve them all."""
    with opened(runs) as run:
        yield run


def first_shard(run: Run, step: int) -> tuple[list[Request], pd.DataFrame]:
    """The requests of a step's first shard, and its responses."""
    answered = pd.read_parquet(run.store.directory / run.store.step_path(step) / "rollout-rollout-0000.parquet")
    draw = Draw(version=step - 1, purpose="rollout", shard=0, first_slot=0, ids=list(answered["id"].unique()),
                n=run.config.rollout.n, temperature=run.config.rollout.temperature)  # fmt: skip
    rows = request_rows(run.step(step), draw)
    return [Request(*pair) for pair in zip(rows["prompt_token_ids"], rows["seed"], strict=True)], answered


def settings(run: Run) -> SamplingSettings:
    return SamplingSettings(run.config.rollout.temperature, 1.0, run.config.rollout.max_response_length)


def assert_same_samples(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    for column in ("token_ids", "log_probs"):
        assert all((one == other).all() for one, other in zip(found[column], expected[column], strict=True))


def test_dead_actors_are_rebuilt_and_give_the_same_bits(run_at_2: Run) -> None:
    """No checkpoint of step 2 is left: the learner starts from the initial weights and replays two batches."""
    requests, answered = first_shard(run_at_2, 3)

    async def sample() -> pd.DataFrame:
        return await run_at_2.workers.sample(2, requests, settings(run_at_2))

    async def killed() -> tuple[pd.DataFrame, pd.DataFrame]:
        before = await sample()
        assert run_at_2.workers._engine is not None
        assert run_at_2.workers._learner is not None
        run_at_2.workers._engine.kill()
        run_at_2.workers._learner.kill()
        return before, await sample()

    before, after = asyncio.run(killed())
    assert not (run_at_2.store.directory / "checkpoints" / "000002").exists()
    assert_same_samples(before, answered)
    assert_same_samples(after, answered)


@pytest.mark.slow
def test_the_policy_after_a_step_is_reached_by_replay_and_by_checkpoint_alike(run: Run) -> None:
    """Sampling for step 4 from the checkpoint of step 3 gives what the run sampled, which never loaded one."""
    requests, answered = first_shard(run, 4)
    assert "checkpoint" in run.store.read_commit(3).artifacts
    assert_same_samples(asyncio.run(run.workers.sample(3, requests, settings(run))), answered)


@pytest.mark.slow
@pytest.mark.parametrize(("role", "version"), [("engine", 2), ("learner", 3)])
def test_an_actor_that_neither_answers_nor_dies_is_replaced(
    run: Run, role: str, version: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    requests, answered = first_shard(run, version + 1)

    async def stopped() -> pd.DataFrame:
        await run.workers.sample(2, first_shard(run, 3)[0], settings(run))
        group = {"engine": run.workers._engine, "learner": run.workers._learner}[role]
        process = await group.actors[0].__ray_call__.remote(lambda actor: os.getpid())
        monkeypatch.setattr("ares.cluster.groups.SILENCE", 3.0)
        os.kill(process, signal.SIGSTOP)
        return await run.workers.sample(version, requests, settings(run))

    assert_same_samples(asyncio.run(stopped()), answered)
    assert f"{role} hung (attempt 1 of 3): no answer to" in caplog.text


def test_an_actor_that_dies_every_time_ends_the_run_resumably(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        def __init__(self, *settings: Any) -> None: ...

        def notes(self) -> list[str]:
            return []

        def version(self) -> int:
            return 3

        def weights(self, averaged: bool = False) -> None: ...

    class Mortal:
        def __init__(self, settings: Any) -> None: ...

        def load_weights(self, version: Any, weights: Any) -> None: ...

        def generate(self, requests: Any, settings: Any) -> Any:
            yield from ()  # a generator, as the engine's own
            os._exit(1)

    monkeypatch.setattr("ares.cluster.cluster.LearnerActor", Idle)
    monkeypatch.setattr("ares.cluster.cluster.EngineActor", Mortal)
    monkeypatch.setattr("ares.cluster.cluster.ATTEMPTS", 1)
    cluster = Cluster(run.config, run.store)
    requests, _ = first_shard(run, 4)
    with pytest.raises(WorkerError, match="engine died 1 times"):
        asyncio.run(cluster.sample(3, requests, settings(run)))
    cluster.shut_down()


@pytest.mark.parametrize(
    ("method", "call", "silence"), [("__init__", "start", 2), pytest.param("join", "join", 8, marks=pytest.mark.slow)]
)
def test_an_actor_that_does_not_come_up_is_replaced(
    method: str, call: str, silence: int, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one whose driver hangs, or whose model is on a disk that does not answer. The second one starts in time."""

    class Stuck:
        def __init__(self, *settings: Any) -> None: ...

        def address(self) -> str:
            return ""

        def join(self, address: str) -> None: ...

    def stuck(self: Any, *given: Any) -> None:
        import time

        time.sleep(600)

    config = run.config.model_copy(update={"learner": run.config.learner.model_copy(update={"ranks": 2})})
    monkeypatch.setattr(
        "ares.cluster.cluster.LearnerActor", type("LearnerActor", (), dict(vars(Stuck)) | {method: stuck})
    )
    monkeypatch.setattr("ares.cluster.cluster.ATTEMPTS", 1)
    monkeypatch.setattr("ares.cluster.groups.SILENCE", float(silence))
    cluster = Cluster(config, run.store)
    with pytest.raises(WorkerError, match=f"learner hung 1 times .*no answer to `{call}` within {silence} s"):
        asyncio.run(asyncio.wait_for(cluster.save(0, "checkpoints/000000"), 60))
    cluster.shut_down()


@pytest.mark.parametrize(
    ("method", "cause"),
    [pytest.param("__init__", "KeyError: ", marks=pytest.mark.slow), ("notes", "ValueError: no such thing")],
)
def test_what_an_actor_raises_is_told_once_with_its_name_and_the_file_of_its_trace(
    method: str, cause: str, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine is called, but the learner fails, whose weights it needs. Nothing is tried again."""

    class Sound:
        def __init__(self, *settings: Any) -> None: ...

    def careless(self: Any, *settings: Any) -> None:
        raise KeyError("a mistake\nof two lines") if settings else ValueError("no such thing")

    for actor, wrong in (("EngineActor", {}), ("LearnerActor", {method: careless})):
        monkeypatch.setattr(f"ares.cluster.cluster.{actor}", type(actor, (), dict(vars(Sound)) | wrong))
    cluster = Cluster(run.config, run.store)
    requests, _ = first_shard(run, 4)
    with pytest.raises(WorkerError, match=f"^The learner failed: {cause}") as caught:
        asyncio.run(cluster.sample(3, requests, settings(run)))
    cluster.shut_down()
    assert "\n" not in str(caught.value)
    file = run.store.directory / "errors" / "learner.txt"
    assert f"(its trace: {file})" in str(caught.value)
    assert "in careless" in file.read_text()
    assert not [record for record in caplog.records if "died" in record.getMessage()]
