"""Programs judged on the nodes of a Ray cluster; a pool that dies is replaced, and no verdict is lost."""

import os
from collections.abc import Iterator, Sequence

import pytest
import ray
from ray.cluster_utils import Cluster

from ares.cluster.failures import WorkerError
from ares.grading.cluster_sandbox import ClusterSandbox, SandboxActor
from sandbox import Program, Verdict

RIGHT = Program(source="def f(x): return x + 1", tests=["assert f(1) == 2"])
WRONG = Program(source="def f(x): return x", tests=["assert f(1) == 2"])


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Two raylets on this machine."""
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.add_node(num_cpus=1)
    monkeypatch.setenv("RAY_ADDRESS", found.address)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.mark.slow
def test_every_node_judges_and_one_that_dies_is_replaced(cluster: Cluster) -> None:
    sandbox = ClusterSandbox(None, "standard")
    assert sandbox.num_workers == len(sandbox._actors) == 2
    assert [v.error_type for v in sandbox.run([RIGHT, WRONG])] == ["accepted", "wrong_answer"]
    for actor in sandbox._actors:
        ray.kill(actor, no_restart=False)
    assert [sandbox.run([RIGHT])[0].error_type for _ in range(4)] == ["accepted"] * 4
    sandbox.close()


@pytest.mark.slow
def test_a_program_that_kills_every_sandbox_ends_the_run_resumably(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mortal(SandboxActor):
        def judge(self, programs: Sequence[Program]) -> list[Verdict]:
            return os._exit(1) if programs else []

    monkeypatch.setattr("ares.grading.cluster_sandbox.SandboxActor", Mortal)
    sandbox = ClusterSandbox(1, "standard")
    with pytest.raises(WorkerError, match="died 3 times"):
        sandbox.run([RIGHT])
    sandbox.close()
