"""Judges programs on the nodes of a Ray cluster: one sandbox pool per node, behind SandboxPool's interface.

Covered: the nodes without a GPU, or all if every node has one; the death of a node's pool. Not covered: isolation, and
what a program may do (sandbox/); a node that joins later is not used by a run that is under way.
"""

import itertools
import logging
import os
import threading
from collections.abc import Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ares.cluster import ATTEMPTS, DEATHS, WorkerError, connect
from sandbox import Program, SandboxPool, SandboxUnavailable, Verdict, packages

logger = logging.getLogger(__name__)


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

    def ready(self) -> bool:
        """True once the pool is up."""
        return True


class ClusterSandbox:
    """Judges programs on the cluster that RAY_ADDRESS names. Usable from several threads."""

    def __init__(self, workers_per_node: int | None, min_isolation: str, imported: tuple[str, ...] = ()) -> None:
        """One pool per node, by default with a worker per core. Raises SandboxUnavailable."""
        connect(os.cpu_count() or 1)
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        nodes = [node for node in nodes if not node["Resources"].get("GPU")] or nodes
        self._settings = (min_isolation, imported, packages.find(imported).digest)
        self._lock = threading.Lock()
        self._sizes = {node["NodeID"]: workers_per_node or int(node["Resources"]["CPU"]) for node in nodes}
        self._actors = {node: self._start(node) for node in self._sizes}
        self._turn = itertools.count()
        self.num_workers = sum(self._sizes.values())
        try:
            ray.get([actor.ready.remote() for actor in self._actors.values()])
        except ray.exceptions.RayTaskError as error:
            self.close()
            raise error.as_instanceof_cause() from error

    def run(self, programs: Sequence[Program]) -> list[Verdict]:
        """Judge programs on the next node. Raises WorkerError if sandboxes keep dying under them."""
        for attempt in range(1, ATTEMPTS + 1):
            node, actor = self._next()
            try:
                return ray.get(actor.judge.remote(programs))
            except DEATHS as error:
                logger.warning("sandbox of node %s died (attempt %d of %d): %s", node[:8], attempt, ATTEMPTS, error)
                self._replace(node, actor)
                last = error
        raise WorkerError(f"Sandboxes died {ATTEMPTS} times under the same program: {last}") from last

    def close(self) -> None:
        """End all pools."""
        for actor in self._actors.values():
            ray.kill(actor)
        self._actors = {}

    def _start(self, node: str) -> Any:
        size = self._sizes[node]
        # No CPU is reserved: programs run while the node's learner and engine wait for them, and vice versa.
        options = {"num_cpus": 0, "max_concurrency": 2 * size}
        where = NodeAffinitySchedulingStrategy(node, soft=True)  # a lost node's share moves to another
        return ray.remote(SandboxActor).options(scheduling_strategy=where, **options).remote(size, *self._settings)

    def _next(self) -> tuple[str, Any]:
        with self._lock:
            nodes = list(self._actors)
            node = nodes[next(self._turn) % len(nodes)]
            return node, self._actors[node]

    def _replace(self, node: str, dead: Any) -> None:
        with self._lock:
            if self._actors.get(node) is dead:
                self._actors[node] = self._start(node)
