"""Programs judged on the nodes of a Ray cluster; a pool that dies is replaced, and no verdict is lost."""

import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import OutOfMemoryError

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
    for actor in list(sandbox._actors.values()):
        ray.kill(actor)
    assert [sandbox.run([RIGHT])[0].error_type for _ in range(4)] == ["accepted"] * 4
    sandbox.close()


@pytest.mark.slow
def test_a_program_under_which_every_sandbox_dies_ends_the_run_with_a_resumable_error(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mortal(SandboxActor):
        def judge(self, programs: list[Program]) -> list[Verdict]:  # type: ignore[override]
            os._exit(1)

    monkeypatch.setattr("ares.grading.cluster_sandbox.SandboxActor", Mortal)
    sandbox = ClusterSandbox(1, "standard")
    with pytest.raises(WorkerError, match="died 3 times"):
        sandbox.run([RIGHT])
    sandbox.close()


def test_a_sandbox_that_rays_memory_monitor_ends_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray: a kill by its monitor is reported by an error of its own."""
    answers: list[Any] = [OutOfMemoryError("1 worker was killed"), [Verdict(1.0, "accepted", ())]]

    def get(asked: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("ray.get", get)
    sandbox = object.__new__(ClusterSandbox)
    sandbox._lock, sandbox._turn, sandbox._actors = threading.Lock(), itertools.count(), {"here": Mock(name="first")}
    monkeypatch.setattr(sandbox, "_start", lambda node: Mock(name="second"))
    first = sandbox._actors["here"]
    assert [verdict.error_type for verdict in sandbox.run([RIGHT])] == ["accepted"]
    assert sandbox._actors["here"] is not first
