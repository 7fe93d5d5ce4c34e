"""A cluster of several raylets on this machine: one is killed in the middle of a step, and the run continues."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray._private.state import available_resources_per_node
from ray.cluster_utils import Cluster

from ares.store.mirror import path_of
from tests.short_runs import assert_same, train

pytestmark = pytest.mark.slow
SETTINGS = ["train.steps=3", "validation.every=4", "validation.max_prompts=2", "algorithm.filter.enabled=false"]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A head that runs no actors, and two machines of which each has room for all of them."""
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        machines.add_node(num_cpus=2)
    yield machines
    ray.shutdown()
    machines.shutdown()


def machine_at_work(cluster: Cluster) -> object:
    """A machine with an actor of the run on it."""
    free = available_resources_per_node()
    busy = [node for node in cluster.worker_nodes if free[node.node_id].get("CPU", 0.0) < 2]
    assert busy, "no machine has an actor"
    return sorted(busy, key=lambda node: node.node_id)[0]


def test_a_machine_killed_in_the_middle_of_a_step_leaves_the_run_as_it_would_have_been(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(tmp_path, "whole", *SETTINGS) == 0
    ray.init(address=cluster.address, log_to_driver=False)
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    ended: list[int] = []
    training = threading.Thread(target=lambda: ended.append(train(tmp_path, "killed", *SETTINGS)))
    training.start()
    step = tmp_path / "killed" / "steps" / "000002"
    while training.is_alive() and not list(step.glob("rollout-*")):
        time.sleep(0.02)
    assert not (step / "COMMIT.json").exists(), "the step was over before a machine could be killed"
    killed = machine_at_work(cluster)
    cluster.remove_node(killed, allow_graceful=False)
    training.join()
    assert ended == [0]
    deadline = time.monotonic() + 60  # Ray may learn of it later than the run
    while sum(node["Alive"] for node in ray.nodes()) > 2:
        assert time.monotonic() < deadline, "the machine is still alive"
        time.sleep(0.5)
    assert_same(tmp_path, "whole", "killed")


def test_actors_on_a_machine_that_shares_nothing_but_the_url_train_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's copies of runs are private to it, so everything passes through the URL."""
    assert train(tmp_path, "whole", *SETTINGS) == 0
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        machines.add_node(num_cpus=2, env_vars={"XDG_CACHE_HOME": str(tmp_path / "actors")})
        monkeypatch.setenv("RAY_ADDRESS", machines.address)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "driver"))
        url = f"file://{tmp_path}/place"
        assert train(url, "apart", *SETTINGS) == 0
    finally:
        machines.shutdown()
    driver, place = path_of(url) / "apart", tmp_path / "place" / "apart"
    actors = tmp_path / "actors" / driver.relative_to(tmp_path / "driver")
    # Each machine has what it wrote, and what it read of the others'.
    assert (actors / "checkpoints" / "000003").is_dir()
    assert (place / "checkpoints" / "000003").is_dir()
    assert not (driver / "checkpoints").exists()
    assert (driver / "steps" / "000003" / "samples.parquet").exists()
    assert not (actors / "steps" / "000003" / "samples.parquet").exists()
    assert_same(tmp_path, "whole", "apart", elsewhere=path_of(url))
