"""The actors of a run: started when first needed, brought to the right weights, rebuilt after a death.

Covered: the learner's ranks and the engines, on one machine or on the cluster that RAY_ADDRESS names. The run directory
is the truth: a learner at version k is the newest checkpoint at or before k with the committed batches since then
replayed. The cluster's machines share it by its URL (ares/store/mirror.py), or as one file system.
"""

import asyncio
import logging
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
import ray
from ray.exceptions import ObjectLostError, RayTaskError

from algorithms.protocol import DataProto
from ares.config import ENGINES, Config
from ares.engines import Request, SamplingSettings
from ares.learner import UpdateResult
from ares.store import Ref, RunStore
from ares.workers.actors import EngineActor, LearnerActor
from ares.workers.connection import connect, has_died
from ares.workers.failures import DEATHS, WorkerError, failure
from ares.workers.groups import EngineGroup, LearnerGroup, name_of
from ares.workers.patience import ActorHung, Patience
from ares.workers.placement import actor_options, bundles, check_gpus, transport, uses_gpus
from ares.workers.prefetch import Asked, Finished, Prefetch
from ares.workers.replay import newest_checkpoint

logger = logging.getLogger(__name__)
T = TypeVar("T")
ATTEMPTS = 3
GRACE = 5.0
"""Seconds for pending calls to learn that Ray's node died: one that has not when Ray is shut down never returns."""


@dataclass(frozen=True)
class UpdateInputs:
    """Everything besides the weights that decides an update."""

    batch: Ref
    beta: dict[str, Any] | None


class Cluster:
    """Learner and engine of one run. `sampling`: the engines' configuration, if not the learner's."""

    def __init__(self, config: Config, store: RunStore, sampling: Config | None = None) -> None:
        self.config = config
        self.sampling = sampling or config
        self.store = store
        self._roles: dict[str, str] = {}
        """Of every actor that was started, by its hexadecimal id."""
        self._learner: LearnerGroup | None = None
        self._learner_version: int | None = None
        self._engine: EngineGroup | None = None
        self._engine_version: int | None = None
        self._placement: Any = None
        self._warming: Future[None] | None = None
        self._disconnected = threading.Event()
        self._patience = Patience()
        self._prefetch: Prefetch | None = None
        self._following: Callable[[], Asked] | None = None
        self.answered = asyncio.Event()
        """Set with the first responses."""
        self._announced: dict[int, UpdateInputs] = {}
        self._through_memory = False
        """Whether weights go through main memory since a direct transport failed."""
        self._weights: dict[int, Any] = {}
        """References to the weights of versions that engines may yet need (rollout.max_staleness)."""
        self._learning = asyncio.Lock()
        """Held while the learner works: it has one version at a time."""
        self._sampling = asyncio.Lock()
        """Held while the engines work, likewise."""
        self._leaving = asyncio.Lock()

    # ---- what phases ask for ---------------------------------------------------------------------------------------

    async def generate(
        self,
        version: int,
        requests: list[Request],
        settings: SamplingSettings,
        finished: Finished | None = None,
    ) -> pd.DataFrame:
        """Sample from the policy of a version, one row a request, in order.

        `finished` is given the rows as they finish, indexed by request; after an actor's death some come twice.
        """
        asked = (version, requests, settings)
        prefetch, self._prefetch = self._prefetch, None
        following, self._following = self._following, None
        if prefetch is None or prefetch.asked != asked:
            if prefetch is not None:
                prefetch.rows.cancel()
            prefetch = Prefetch(asked, self._generate)
        if following is not None:
            self._prefetch = Prefetch(following(), self._generate)
        if finished is not None:
            prefetch.tell(finished)
        return await prefetch.rows

    def begin(self, version: int, requests: list[Request], settings: SamplingSettings) -> None:
        """Start what `generate` will be asked for next; rows that finish before that are kept."""
        self._drop_prefetch()
        self._prefetch = Prefetch((version, requests, settings), self._generate)

    def expect(self, following: Callable[[], Asked] | None) -> None:
        """Set what `generate` will be asked for after its next call: the engines start it without waiting for that."""
        self._following = following

    def _drop_prefetch(self) -> None:
        if self._prefetch is not None:
            self._prefetch.rows.cancel()
        self._prefetch = None

    async def _generate(self, asked: Asked, finished: Finished) -> pd.DataFrame:
        version, requests, settings = asked

        def answered(rows: pd.DataFrame) -> None:
            self.answered.set()
            finished(rows)

        async def work() -> pd.DataFrame:
            async with self._sampling:
                engine = await self._engine_at(version)
                return await engine.generate(requests, settings, answered)

        return await self._persistently("engine", work)

    async def experience(self, version: int, batch: Ref, target: str) -> Ref:
        """Log-probs, entropies and values of a batch under the policy of a version."""
        measured: Ref = await self._measured(version, "experience", batch, target)
        return measured

    async def mismatch(self, version: int, rows: DataProto, temperature: float) -> dict[str, float]:
        """How far the log-probs of a version's policy are from those that rows were sampled with."""
        measured: dict[str, float] = await self._measured(version, "mismatch", rows, temperature)
        return measured

    async def _measured(self, version: int, method: str, *arguments: Any) -> Any:
        """What a method of the learner returns at a version."""

        async def work() -> Any:
            async with self._learning:
                learner = await self._learner_at(version)
                await self._engine_sleeps()
                return await learner.call(method, *arguments)

        return await self._persistently("learner", work)

    def announce_update(self, step: int, batch: Ref, beta: dict[str, Any] | None) -> None:
        """Set the inputs of a step's update before they are committed: a rebuilt learner replays it from here."""
        self._announced = {step: UpdateInputs(batch, beta)}

    async def update(self, step: int, progress: Callable[[int], None] | None = None) -> UpdateResult:
        """Train on the announced batch: the policy after step − 1 becomes that after `step`.

        `progress` is told how many optimiser steps are done.
        """

        async def work() -> UpdateResult:
            async with self._learning:
                learner = await self._learner_at(step - 1)
                if self.config.rollout.max_staleness:
                    self._held(step - 1, learner)
                await self._engine_sleeps()
                inputs = self._update_inputs(step)
                self._learner_version = None  # a cancelled update still completes
                try:
                    result = await learner.update(inputs.batch, inputs.beta, progress)
                except RayTaskError:
                    self.shut_down()  # half of the update may be in the weights
                    raise
                self._learner_version = step
                return result

        return await self._persistently("learner", work)

    async def save(self, version: int, target: str) -> Ref:
        """Write the checkpoint of a version."""

        async def work() -> Ref:
            async with self._learning:
                learner = await self._learner_at(version)
                return await learner.call("save", target)

        return await self._persistently("learner", work)

    def begin_warm_up(self) -> None:
        """Start Ray and the actors in the background; `warm_up` waits for them."""
        # Ray and Prefect both import it lazily, and its imports are circular: two threads would see it half imported.
        import pydantic.v1  # noqa: F401

        self._warming = Future()
        threading.Thread(target=self._warm_up_beside, args=[self._warming], daemon=True).start()

    def _warm_up_beside(self, done: "Future[None]") -> None:
        try:
            self._warm_up()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 (it is raised where it is waited for)
            done.set_exception(error)
        self._disconnected.wait()  # Ray's processes end with the thread that started them

    def warm_up(self) -> None:
        """Start the actors now, so that they load during other work."""
        warming, self._warming = self._warming, None
        if warming is None:
            self._warm_up()
        else:
            warming.result()

    def _warm_up(self) -> None:
        self._start()
        self._learner = self._learner or self._start_learner()
        if not self.takes_turns:
            self._engine = self._engine or self._start_engine()

    def shut_down(self) -> None:
        """Kill the actors."""
        for group in (self._learner, self._engine):
            if group is not None:
                group.kill()
        if self._placement is not None:
            ray.util.remove_placement_group(self._placement)
        self._learner = self._engine = self._learner_version = self._engine_version = self._placement = None
        self._weights = {}

    def _let_go(self, dead: str | None) -> None:
        """Kill what is useless after an actor's death: the rest of its group, or everything if that is unknown.

        Calls to learner and engine may both meet the same death: the second one must not kill the replacement.
        """
        if dead in self._roles and not any(group and group.has(dead) for group in (self._engine, self._learner)):
            self._weights = {}  # some may be the dead one's
        elif self._placement is None and self._engine is not None and self._engine.has(dead):
            self._engine.kill()
            self._engine = self._engine_version = None
        elif self._placement is None and self._learner is not None and self._learner.has(dead):
            self._learner.kill()
            self._learner = self._learner_version = None
            self._weights = {}
        else:
            self.shut_down()

    def disconnect(self) -> None:
        """Kill the actors and disconnect from Ray."""
        self._drop_prefetch()
        self.shut_down()
        ray.shutdown()
        self._disconnected.set()

    # ---- bringing actors to a version ------------------------------------------------------------------------------

    async def _engine_at(self, version: int) -> EngineGroup:
        self._start()
        engine = self._engine or await self._new_engine()  # meanwhile the learner's side may kill everything
        if self._engine_version != version:
            self._engine_version = None
            if not await self._handed_over_in_place(engine, version):
                weights = await self._weights_of(version)
                async with self._learning if self.takes_turns else nullcontext():  # it would put them to sleep
                    await engine.load_weights(version, weights)
            self._engine_version = version
        return engine

    async def _new_engine(self) -> EngineGroup:
        """Start the engines; on shared GPUs once the learner has loaded, and while it is idle: vLLM counts all memory
        that is taken while it starts as its own."""
        async with self._learning if self.takes_turns else nullcontext():
            self._start()  # while this waited, the learner's side may have killed everything
            if self.takes_turns:
                await self._running_learner().started()
            engine = self._engine = self._start_engine()
            self._engine_version = None
            if self.takes_turns:
                await engine.started()
        return engine

    async def _handed_over_in_place(self, engine: EngineGroup, version: int) -> bool:
        """Have engines copy the learner's own weights, if there is a transport; returns whether they did."""
        way = self._transport
        if way is None:
            return False
        async with self._learning:  # an update would change them while they are copied
            if version in self._weights and self._learner_version != version:
                return False  # main memory has them: the learner need not go back
            learner = await self._learner_at(version)
            try:
                await engine.load_weights(version, learner.weights_in_place(way))
            except (*DEATHS, ActorHung, RayTaskError) as error:
                refused = not isinstance(error, (*DEATHS, ActorHung))
                cause = failure("engine", error, self.store) if refused else error
                logger.warning("weights cannot go by %s, from now on they go through main memory: %s", way, cause)
                self._through_memory = True
                if not refused:
                    raise
                return False
        return True

    @property
    def _transport(self) -> str | None:
        return None if self._through_memory else transport(self.config, self._placement is not None)

    async def _weights_of(self, version: int) -> Any:
        """A reference that goes from actor to actor: the weights never pass through this process."""
        if version in self._weights:
            return self._weights[version]
        async with self._learning:
            return self._held(version, await self._learner_at(version))

    def _held(self, version: int, learner: LearnerGroup) -> Any:
        """A reference to the weights of a version, which the learner has now; it is kept where the learner may move on
        before an engine has loaded them."""
        stale = self.config.rollout.max_staleness
        if not stale:
            return learner.weights()
        if version not in self._weights:
            kept = {held: weights for held, weights in self._weights.items() if held >= version - stale}
            self._weights = kept | {version: learner.weights()}
        return self._weights[version]

    @property
    def takes_turns(self) -> bool:
        """Whether learner and engine share GPUs: one sleeps while the other works. Known once they were started."""
        return self._placement is not None and self.config.rollout.placement == "colocate"

    @property
    def answers_parts(self) -> bool:
        """Whether a call may be repeated with only those of its requests that have no response yet.

        On a CPU the last bits depend on what is sampled together; on a GPU none are promised.
        """
        return self._placement is not None or bool(ENGINES.fact(self.config.rollout.engine, "independent"))

    async def _engine_sleeps(self) -> None:
        """Free shared GPUs for the learner; the engine needs weights afterwards."""
        if self._engine is not None and self.takes_turns:
            self._engine_version = None
            await self._engine.sleep()

    def _running_learner(self) -> LearnerGroup:
        if self._learner is None:
            self._learner, self._learner_version = self._start_learner(), None
        return self._learner

    async def _learner_at(self, version: int) -> LearnerGroup:
        self._start()
        learner, held = self._running_learner(), self._learner_version  # likewise
        if held is None:
            held = self._learner_version = await learner.call("version")
        return learner if held == version else await self._rewind(learner, version, held if held < version else None)

    async def _rewind(self, learner: LearnerGroup, version: int, held: int | None) -> LearnerGroup:
        """Load the newest checkpoint at or before `version` and replay the batches committed since then."""
        checkpoint_version, checkpoint = newest_checkpoint(self.store, version)
        self._learner_version = None
        if held is None or checkpoint_version > held:
            if checkpoint is None:
                learner.kill()
                self._learner = learner = self._start_learner()
            else:
                await learner.call("load", checkpoint)
            held = checkpoint_version
        for step in range(held + 1, version + 1):
            if step - 1 >= version - self.config.rollout.max_staleness:  # a resumed run is about to sample from them
                self._held(step - 1, learner)
            inputs = self._update_inputs(step)
            await learner.update(inputs.batch, inputs.beta)
        if version > held:
            logger.info("replayed %d updates to reach the weights after step %d", version - held, version)
        self._learner_version = version
        return learner

    def _update_inputs(self, step: int) -> UpdateInputs:
        """The inputs of a step's update. Raises DamagedArtifact when its commit cannot be read."""
        if step in self._announced:
            return self._announced[step]
        commit, before = self.store.read_commit(step), self.store.read_commit(step - 1)
        return UpdateInputs(commit.artifacts["batch"], before.state["beta"])

    # ---- starting and restarting -----------------------------------------------------------------------------------

    def _start(self) -> None:
        learner, rollout = self.config.learner, self.config.rollout
        threads = learner.threads * learner.ranks + rollout.threads * rollout.engines
        joining = not ray.is_initialized()
        connect(max(os.cpu_count() or 1, threads))
        if joining and (free := ray.available_resources().get("CPU", 0.0)) < threads:
            logger.warning(
                "learner.ranks=%d × threads=%d + rollout.engines=%d × threads=%d need %d CPUs, and the Ray cluster has "
                "%g free of %g: the run waits for more",
                learner.ranks, learner.threads, rollout.engines, rollout.threads,
                threads, free, ray.cluster_resources().get("CPU", 0.0),
            )  # fmt: skip
        available = ray.cluster_resources().get("GPU", 0)
        check_gpus(self.config, int(available), "the Ray cluster")
        if self._placement is None and uses_gpus(self.config, available):
            self._placement = ray.util.placement_group(bundles(self.config), strategy="PACK")

    def _remote(self, actor: type) -> Any:
        return ray.remote(actor) if self._transport is None else ray.remote(enable_tensor_transport=True)(actor)

    def _start_learner(self) -> LearnerGroup:
        settings, directory = self.config.model_dump(mode="json"), self.store.address
        actors = [
            self._remote(LearnerActor)
            .options(**actor_options(self.config, "learner", rank, self._placement))
            .remote(settings, directory, rank, self.store.writer)
            for rank in range(self.config.learner.ranks)
        ]
        self._roles |= dict.fromkeys(map(name_of, actors), "learner")
        return LearnerGroup(actors, self._patience)

    def _start_engine(self) -> EngineGroup:
        settings = self.sampling.model_dump(mode="json")
        actors = [
            self._remote(EngineActor)
            .options(**actor_options(self.config, "engine", number, self._placement))
            .remote(settings)
            for number in range(self.config.rollout.engines)
        ]
        self._roles |= dict.fromkeys(map(name_of, actors), "engine")
        return EngineGroup(actors, self._patience)

    async def _leave_dead_ray(self) -> None:
        async with self._leaving:
            if has_died():
                logger.warning("Ray's node on this machine died (out of memory?): Ray is started anew")
                await asyncio.sleep(GRACE)
                self.shut_down()
                ray.shutdown()
                self._through_memory = True  # Ray's watch over other transfers does not outlive its shutdown

    async def _persistently(self, role: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work`, and do it again with new actors when one dies or hangs.

        Raises WorkerError when the learner, or the engine, has died ATTEMPTS times (a machine that dies with both
        counts once for each), and at once when an actor raises, since it would raise the same again.
        """
        deaths: Counter[str] = Counter()
        while True:
            await self._leave_dead_ray()
            try:
                return await work()
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
                    raise WorkerError(f"The {whose} {what} {ATTEMPTS} times in the same phase: {error}") from error
            except RayTaskError as error:
                raise failure(role, error, self.store) from error
