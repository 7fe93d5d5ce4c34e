"""What a run asks of a Ray cluster before its actors start: room on CPUs, and GPUs that it does not give up later."""

from pathlib import Path

import pytest

from ares.cluster.cluster import Cluster
from ares.config import ConfigError
from ares.store.store import RunStore
from tests.ares.builders import config


def test_a_ray_cluster_without_room_is_named_once_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be about to grow, or another run about to end: the run waits, and says for what."""
    joined = iter([False, True])
    monkeypatch.setattr("ray.is_initialized", lambda: next(joined))
    monkeypatch.setattr("ares.cluster.cluster.connect", lambda cpus: None)
    for resources in ("available_resources", "cluster_resources"):
        monkeypatch.setattr(f"ray.{resources}", lambda: {"CPU": 1.0})
    cluster = Cluster(config("learner.ranks=2"), RunStore(tmp_path / "run"))
    cluster._start()
    cluster._start()
    assert [record.getMessage() for record in caplog.records] == [
        "learner.ranks=2 × threads=1 + rollout.engines=1 × threads=1 need 3 CPUs, and the Ray cluster has 1 free of 1: "
        "the run waits for more"
    ]


def test_a_ray_cluster_that_lost_its_gpus_is_waited_for_and_not_replaced_by_its_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[list[dict[str, float]]] = []
    resources = {"CPU": 8.0, "GPU": 2.0}
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ares.cluster.cluster.connect", lambda cpus: None)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": resources}])
    monkeypatch.setattr("ray.cluster_resources", lambda: resources)
    monkeypatch.setattr("ray.util.placement_group", lambda bundles, strategy: asked.append(bundles) or object())
    monkeypatch.setattr("ray.util.remove_placement_group", lambda group: None)
    cluster = Cluster(config("learner.ranks=2"), RunStore(tmp_path / "run"))
    for _ in range(2):
        cluster._start()
        cluster.shut_down()
        resources.pop("GPU", None)
    assert [[bundle["GPU"] for bundle in bundles] for bundles in asked] == [[1, 1], [1, 1]]
    assert caplog.messages == ["the Ray cluster has lost GPUs: the run needs 2 and waits until it has more than 0"]


def test_gpus_that_one_engine_needs_are_those_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ares.cluster.cluster.connect", lambda cpus: None)
    monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": {"GPU": 2.0}}] * 3)
    monkeypatch.setattr("ray.cluster_resources", lambda: {"GPU": 6.0})
    settings = ["rollout.engine=vllm", "rollout.placement=split", "rollout.vllm.tensor_parallel=4"]
    with pytest.raises(ConfigError, match="tensor_parallel=4: no machine of the Ray cluster has more than 2 GPUs"):
        Cluster(config(*settings), RunStore(tmp_path / "run"))._start()
