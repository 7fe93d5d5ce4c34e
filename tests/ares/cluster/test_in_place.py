"""Engines that copy the learner's own weights, as on one GPU: here Ray sends them over gloo, which needs none."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.experimental.collective import create_collective_group

from ares.cluster.cluster import Cluster
from ares.cluster.connection import connect
from ares.cluster.placement import transport
from ares.config import Config
from ares.runs.run import Run, read_config
from ares.store import RunStore
from tests.ares.builders import config
from tests.ares.cluster.test_cluster import assert_same_samples, first_shard, settings


@pytest.mark.parametrize(
    ("overrides", "placed", "way"),
    [
        ([], True, "CUDA_IPC"),
        ([], False, None),
        (["learner.ranks=2"], True, "CUDA_IPC"),
        (["learner.ranks=2", "rollout.engines=2"], True, "CUDA_IPC"),
        (["rollout.engines=2"], True, None),
        (["learner.ranks=2", "learner.sharded=true"], True, None),
        (["rollout.placement=split"], True, None),
    ],
)
def test_how_weights_go(overrides: list[str], placed: bool, way: str | None) -> None:
    assert transport(config(*overrides), placed) == way


@pytest.fixture(scope="module")
def one_ray() -> Iterator[None]:
    connect(cpus=4)
    yield
    ray.shutdown()


@pytest.fixture
def run(runs: Path, one_ray: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The run as a new process finds it, with gloo as the transport."""

    def gloo(config: Config, placed: bool) -> str:
        return "GLOO"

    monkeypatch.setattr("ares.cluster.cluster.transport", gloo)
    run = Run.open(read_config(RunStore(runs / "uninterrupted")), "uninterrupted", runs, Cluster)
    yield run
    run.workers.shut_down()


def in_one_group(cluster: Cluster) -> None:
    cluster.warm_up()
    assert cluster._learner is not None
    assert cluster._engine is not None
    create_collective_group([*cluster._learner.actors, *cluster._engine.actors], backend="torch_gloo")


@pytest.mark.slow
def test_they_are_the_learners_at_every_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ares.cluster.groups.LearnerGroup.weights", lambda learner: pytest.fail("through main memory"))
    in_one_group(run.workers)

    async def sampled() -> None:
        for step in (2, 3):  # an update in place lies between them
            requests, answered = first_shard(run, step)
            assert_same_samples(await run.workers.sample(step - 1, requests, settings(run)), answered)

    asyncio.run(sampled())


@pytest.mark.slow
def test_a_way_that_is_refused_is_left(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Here there is no GPU that learner and engine could share."""
    monkeypatch.setattr("ares.cluster.cluster.transport", lambda config, placed: "CUDA_IPC")
    requests, answered = first_shard(run, 3)
    assert_same_samples(asyncio.run(run.workers.sample(2, requests, settings(run))), answered)
    assert "weights cannot go by CUDA_IPC, from now on they go through main memory" in caplog.text


@pytest.mark.slow
def test_where_they_do_not_go_they_go_through_main_memory(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """The engine dies of it: Ray kills the receiver."""
    in_one_group(run.workers)
    requests, answered = first_shard(run, 3)
    assert run.workers._engine is not None
    run.workers._engine.kill()
    assert_same_samples(asyncio.run(run.workers.sample(2, requests, settings(run))), answered)
    assert "from now on they go through main memory" in caplog.text
