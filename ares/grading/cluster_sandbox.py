"""Judges programs on the nodes of a Ray cluster: one sandbox pool per node, behind SandboxPool's interface.

Covered: the nodes without a GPU, or all if every node has one; the death of a node's pool. Not covered: isolation, and
what a program may do (sandbox/); a node that joins later is not used by a run that is under way.
"""

import itertools
import os
from collections.abc import Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Affinity

from ares.cluster import ATTEMPTS, DEATHS, WorkerError, connect
from sandbox import Program, SandboxPool, SandboxUnavailable, Verdict, packages


class SandboxActor:
    """A sandbox pool on a node; its calls run in threads, since a pool takes several at a time."""

    def __init__(self, workers: int, min_isolation: str, imported: tuple[str, ...], lock: str) -> None:
        """Raises SandboxUnavailable, with the remedy, if the node cannot isolate programs or has other packages."""
        environment = packages.find(imported)
        if environment.digest != lock:
            raise SandboxUnavailable(
                f"node {os.uname().nodename} has different packages from the driver: "
                f"{', '.join(environment.versions)}. "
                f"Copy the driver's {packages.LOCK} there, then: ares sandbox packages add --lock {packages.LOCK}"
            )
        self._pool = SandboxPool(workers, min_isolation, packages=imported)

    def judge(self, programs: Sequence[Program]) -> list[Verdict]:
        """Verdicts in the order of the programs."""
        return self._pool.run(programs)


class ClusterSandbox:
    """Judges programs on the cluster that RAY_ADDRESS names. Usable from several threads.

    Ray starts a pool that died again, on another node if its own is lost, and hands it its programs again.
    """

    def __init__(self, workers_per_node: int | None, min_isolation: str, imported: tuple[str, ...] = ()) -> None:
        """One pool per node, by default with a worker per core. Raises SandboxUnavailable."""
        connect(os.cpu_count() or 1)
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        nodes = [node for node in nodes if not node["Resources"].get("GPU")] or nodes
        sizes = {node["NodeID"]: workers_per_node or int(node["Resources"]["CPU"]) for node in nodes}
        lock = packages.find(imported).digest
        # No CPU is reserved: programs run while the node's learner and engine wait for them, and vice versa.
        lasting = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": ATTEMPTS - 1}
        self._actors = [
            ray.remote(SandboxActor)
            .options(**lasting, max_concurrency=2 * size, scheduling_strategy=Affinity(node, soft=True))
            .remote(size, min_isolation, imported, lock)
            for node, size in sizes.items()
        ]
        self._turn = itertools.cycle(self._actors)
        self.num_workers = sum(sizes.values())
        try:
            ray.get([actor.judge.remote([]) for actor in self._actors])  # returns once the pools are up
        except ray.exceptions.RayTaskError as error:
            self.close()
            raise error.as_instanceof_cause() from error

    def run(self, programs: Sequence[Program]) -> list[Verdict]:
        """Judge programs on the next node. Raises WorkerError if sandboxes keep dying under them."""
        try:
            return ray.get(next(self._turn).judge.remote(programs))
        except DEATHS as error:
            raise WorkerError(f"Sandboxes died {ATTEMPTS} times under the same program: {error}") from error

    def close(self) -> None:
        """End all pools."""
        for actor in self._actors:
            ray.kill(actor)
