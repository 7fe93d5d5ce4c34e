"""Learner ranks and engines as Ray actors: started when first needed, rebuilt after a death.

Covered: one machine, or the cluster that RAY_ADDRESS names, whose machines share the run directory by its URL
(ares/store/mirror.py) or as one file system. Not covered: bringing actors to a version (ares/workers/workers.py).
"""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import ray
from ray.exceptions import ObjectLostError, RayTaskError

from ares.cluster.actors import EngineActor, LearnerActor, actor_options
from ares.cluster.connection import connect, has_died
from ares.cluster.failures import DEATHS, WorkerError, failure
from ares.cluster.groups import ActorHung, EngineGroup, LearnerGroup, Patience, name_of
from ares.config import Config, ConfigError
from ares.models import SETTINGS_AGAINST
from ares.store import RunStore
from ares.workers import Workers, bundles, check_gpus, demand, uses_gpus

logger = logging.getLogger(__name__)
T = TypeVar("T")
ATTEMPTS = 3
GRACE = 5.0
"""Seconds for pending calls to learn that Ray's node died: one that has not when Ray is shut down never returns."""


class Cluster(Workers):
    """Learner and engines of one run as actors."""

    raised_by_the_learner = (RayTaskError,)

    def __init__(self, config: Config, store: RunStore, sampling: Config | None = None) -> None:
        super().__init__(config, store, sampling)
        self._roles: dict[str, str] = {}
        """Of every actor that was started, by its hexadecimal id."""
        self._placement: Any = None
        self._gpus = 0
        """How many the run was placed on: it does not change to CPUs when they are gone."""
        self._patience = Patience()
        self._leaving = asyncio.Lock()

    @property
    def uses_gpus(self) -> bool:
        """Whether the actors are placed on GPUs."""
        return self._placement is not None

    def shut_down(self) -> None:
        """Kill the actors."""
        super().shut_down()
        if self._placement is not None:
            ray.util.remove_placement_group(self._placement)
        self._placement = None

    def close(self) -> None:
        """Kill the actors and disconnect from Ray."""
        super().close()
        ray.shutdown()

    def _let_go(self, dead: str | None) -> None:
        """Kill what is useless after an actor's death: the rest of its group, or everything if that is unknown.

        Calls to learner and engine may both meet the same death: the second one must not kill the replacement.
        """
        if dead in self._roles and not any(group and group.has(dead) for group in (self._engine, self._learner)):
            self._weights = {}  # some may be the dead one's
        elif self._placement is None and self._engine is not None and self._engine.has(dead):
            self._engine.kill()
            self._engine = self._engine_holds = None
        elif self._placement is None and self._learner is not None and self._learner.has(dead):
            self._learner.kill()
            self._learner = self._learner_version = None
            self._weights = {}
        else:
            self.shut_down()

    # ---- starting and restarting -----------------------------------------------------------------------------------

    def _start(self) -> None:
        learner, rollout = self.config.learner, self.config.rollout
        threads = learner.threads * learner.ranks + rollout.threads * rollout.engines
        joining = not ray.is_initialized()
        connect(max(os.cpu_count() or 1, threads))
        gpus = max(int(ray.cluster_resources().get("GPU", 0)), self._gpus)
        check_gpus(self.config, gpus, "the Ray cluster")
        self._gpus = demand(self.config) if uses_gpus(self.config, gpus) else 0
        free = ray.available_resources()
        cpus_left, gpus_left = free.get("CPU", 0.0), free.get("GPU", 0.0)
        if joining and (cpus_left < threads or gpus_left < self._gpus):
            logger.warning(
                "the run needs %d CPUs and %d GPUs, of which %g and %g are free on the Ray cluster: it waits",
                threads, self._gpus, cpus_left, gpus_left,
            )  # fmt: skip
        if self._gpus and self._placement is None:
            asked = bundles(self.config)
            largest = max(int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"])
            if (each := max(int(bundle["GPU"]) for bundle in asked)) > max(largest, 1):
                raise ConfigError(
                    f"rollout.vllm.tensor_parallel={each}: no machine of the Ray cluster has more than {largest} GPUs"
                )
            self._placement = ray.util.placement_group(asked, strategy="PACK")
        elif joining and self.config.learner.device == "auto" and "RAY_ADDRESS" in os.environ:
            logger.warning("the Ray cluster has no GPU, so the run uses CPUs (with learner.device=cuda it would not)")

    def _make(self, role: str, actor: type, *given: tuple[Any, ...]) -> list[Any]:
        """Start the actors of a role, with these arguments for each."""
        actors = [
            ray.remote(actor).options(**actor_options(self.config, role, number, self._placement)).remote(*each)
            for number, each in enumerate(given)
        ]
        self._roles |= dict.fromkeys(map(name_of, actors), role)
        return actors

    def _start_learner(self) -> LearnerGroup:
        of_all = self.config.model_dump(mode="json"), self.store.address
        lends = not os.environ.get("RAY_ADDRESS") and not self.config.rollout.max_staleness
        of_each = [(*of_all, rank, self.store.writer, lends) for rank in range(self.config.learner.ranks)]
        return LearnerGroup(self._make("learner", LearnerActor, *of_each), self._patience)

    def _start_engine(self) -> EngineGroup:
        of_each = [(self.sampling.model_dump(mode="json"),)] * self.config.rollout.engines
        return EngineGroup(self._make("engine", EngineActor, *of_each), self._patience)

    async def _leave_dead_ray(self) -> None:
        async with self._leaving:
            if has_died():
                logger.warning("Ray's node on this machine died (out of memory?): Ray is started anew")
                await asyncio.sleep(GRACE)
                self.shut_down()
                ray.shutdown()

    async def _persistently(self, role: str, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Do `work`, and do it again with new actors when one dies or hangs.

        Raises WorkerError when the learner, or the engine, has died ATTEMPTS times (a machine that dies with both
        counts once for each), and at once when an actor raises, since it would raise the same again.
        """
        deaths: Counter[str] = Counter()
        while True:
            await self._leave_dead_ray()
            try:
                return await work(*arguments)
            # Before RayTaskError: an error caused by a death, such as of the actor that hands weights over, is both.
            except (*DEATHS, ActorHung, ObjectLostError) as error:  # weights are lost with their machine
                if getattr(error, "actor_init_failed", False):
                    raise failure(role, error, self.store) from error
                dead = getattr(error, "actor_id", None)
                whose = "learner" if isinstance(error, ObjectLostError) else self._roles.get(dead or "", role)
                deaths[whose] += 1
                what = "hung" if isinstance(error, ActorHung) else "died"
                logger.warning("%s %s (attempt %d of %d): %s", whose, what, deaths[whose], ATTEMPTS, error)
                self._let_go(dead)
                if deaths[whose] == ATTEMPTS:
                    told = f"The {whose} {what} {ATTEMPTS} times in the same phase: {error}"
                    hint = f" If memory ran out, {SETTINGS_AGAINST[whose]}"
                    raise WorkerError(told + (hint if what == "died" else "")) from error
            except RayTaskError as error:
                raise failure(role, error, self.store) from error
