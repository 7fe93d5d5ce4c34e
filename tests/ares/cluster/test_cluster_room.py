"""A Ray cluster that has no room for a run yet: the run waits and says for what."""

from pathlib import Path

import pytest
from ray.cluster_utils import Cluster as Machines

from ares.cluster.cluster import Cluster
from ares.store.store import RunStore
from tests.ares.builders import config


def test_a_cluster_without_room_is_named_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be about to grow, or another run about to end: the run waits, and says for what."""
    machines = Machines(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        monkeypatch.setenv("RAY_ADDRESS", machines.address)
        cluster = Cluster(config("learner.ranks=2"), RunStore(tmp_path / "run"))
        cluster.warm_up()
        cluster.warm_up()
        cluster.close()
    finally:
        machines.shutdown()
    assert [record.getMessage() for record in caplog.records if record.name == "ares.cluster.cluster"] == [
        "learner.ranks=2 × threads=1 + rollout.engines=1 × threads=1 need 3 CPUs, and the Ray cluster has 1 free of 1: "
        "the run waits for more"
    ]
