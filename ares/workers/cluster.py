"""The actors of a run: started when first needed, brought to the right weights, rebuilt after a death.

Covered: one learner and one engine on one machine or on the cluster that RAY_ADDRESS names. The run directory is the
truth: a learner at version k is the newest checkpoint at or before k with the committed batches since then replayed.
Not covered: several learner ranks or engines.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
import ray
from ray.exceptions import RayActorError, RayTaskError

from ares.config import Config
from ares.engines import Request, SamplingSettings
from ares.learner import UpdateResult
from ares.store import DamagedArtifact, Ref, RunStore
from ares.workers.actors import EngineActor, LearnerActor

logger = logging.getLogger(__name__)
T = TypeVar("T")
ATTEMPTS = 3


class WorkerError(RuntimeError):
    """An actor died as often as it was rebuilt; the run can be resumed once the cause is gone."""


@dataclass(frozen=True)
class UpdateInputs:
    """Everything besides the weights that decides an update."""

    batch: Ref
    beta: dict[str, Any] | None


class Cluster:
    """Learner and engine of one run."""

    def __init__(self, config: Config, store: RunStore) -> None:
        self.config = config
        self.store = store
        self._learner: Any = None
        self._learner_version: int | None = None
        self._engine: Any = None
        self._engine_version: int | None = None
        self._announced: dict[int, UpdateInputs] = {}

    # ---- what phases ask for ---------------------------------------------------------------------------------------

    async def generate(
        self,
        version: int,
        requests: list[Request],
        settings: SamplingSettings,
        finished: Callable[[pd.DataFrame], None] | None = None,
    ) -> pd.DataFrame:
        """Sample from the policy of a version, one row a request, in order.

        `finished` is given the rows as they finish, indexed by request; after an actor's death some come twice.
        """

        async def work() -> pd.DataFrame:
            engine = await self._engine_at(version)
            parts: list[pd.DataFrame] = []
            async for reference in engine.generate.remote(requests, settings):
                parts.append(await reference)
                if finished is not None:
                    finished(parts[-1])
            return pd.concat(parts).sort_index()

        return await self._persistently("engine", work)

    async def experience(self, version: int, batch: Ref, target: str) -> Ref:
        """Log-probs, entropies and values of a batch under the policy of a version."""

        async def work() -> Ref:
            learner = await self._learner_at(version)
            return await learner.experience.remote(batch, target)

        return await self._persistently("learner", work)

    def announce_update(self, step: int, batch: Ref, beta: dict[str, Any] | None) -> None:
        """Say what the update of a step is given, before its commit does: a rebuilt learner replays it from here."""
        self._announced = {step: UpdateInputs(batch, beta)}

    async def update(self, step: int) -> UpdateResult:
        """Train on the announced batch: the policy after step − 1 becomes that after `step`."""

        async def work() -> UpdateResult:
            learner = await self._learner_at(step - 1)
            inputs = self._update_inputs(step)
            try:
                result = await learner.update.remote(inputs.batch, inputs.beta)
            except RayTaskError:
                self.shut_down()  # half of the update may be in the weights
                raise
            self._learner_version = step
            return result

        return await self._persistently("learner", work)

    async def save(self, version: int, target: str) -> Ref:
        """Write the checkpoint of a version."""

        async def work() -> Ref:
            learner = await self._learner_at(version)
            return await learner.save.remote(target)

        return await self._persistently("learner", work)

    def warm_up(self) -> None:
        """Start the actors now, so that they load while something else is done."""
        self._start()
        self._learner = self._learner or self._start_learner()
        self._engine = self._engine or self._start_engine()

    def shut_down(self) -> None:
        """Let the actors go."""
        for actor in (self._learner, self._engine):
            if actor is not None:
                ray.kill(actor)
        self._learner = self._engine = self._learner_version = self._engine_version = None

    def disconnect(self) -> None:
        """Let the actors and Ray go."""
        self.shut_down()
        ray.shutdown()

    # ---- bringing actors to a version ------------------------------------------------------------------------------

    async def _engine_at(self, version: int) -> Any:
        self._start()
        if self._engine is None:
            self._engine, self._engine_version = self._start_engine(), None
        if self._engine_version != version:
            learner = await self._learner_at(version)
            # The reference goes from actor to actor; the weights never pass through this process.
            await self._engine.load_weights.remote(version, learner.weights.remote())
            self._engine_version = version
        return self._engine

    async def _learner_at(self, version: int) -> Any:
        self._start()
        if self._learner is None:
            self._learner, self._learner_version = self._start_learner(), None
        if self._learner_version is None:
            self._learner_version = await self._learner.version.remote()
        if self._learner_version != version:
            start = self._learner_version if self._learner_version < version else None
            await self._rewind(version, start)
        return self._learner

    async def _rewind(self, version: int, held: int | None) -> None:
        """Load the newest checkpoint at or before `version` and replay the batches committed since then."""
        checkpoint_version, checkpoint = self._newest_checkpoint(version)
        if held is None or checkpoint_version > held:
            if checkpoint is None:
                ray.kill(self._learner)
                self._learner = self._start_learner()
            else:
                await self._learner.load.remote(checkpoint)
            held = checkpoint_version
        for step in range(held + 1, version + 1):
            inputs = self._update_inputs(step)
            await self._learner.update.remote(inputs.batch, inputs.beta)
        if version > held:
            logger.info("replayed %d updates to reach the weights after step %d", version - held, version)
        self._learner_version = version

    def first_unreplayable(self, version: int) -> int | None:
        """The first step whose batch is needed to reach the weights of a version and is missing or damaged."""
        start, _ = self._newest_checkpoint(version)
        for step in range(start + 1, version + 1):
            if not self.store.intact([self.store.read_commit(step).artifacts["batch"]]):
                return step
        return None

    def _newest_checkpoint(self, version: int) -> tuple[int, Ref | None]:
        fork = self.store.fork()
        for step in range(version, 0, -1):
            if fork is not None and step == fork.version:
                # Its settings would make other weights of the batches that came before.
                if fork.checkpoint is None or not self.store.intact([fork.checkpoint]):
                    raise DamagedArtifact(
                        f"{self.store.directory}: the weights it was forked with after step {step} of {fork.run!r} "
                        "are gone, and so is every later checkpoint; fork it again"
                    )
                return step, fork.checkpoint
            if (self.store.directory / self.store.step_path(step) / "COMMIT.json").exists():
                checkpoint = self.store.read_commit(step).artifacts.get("checkpoint")
                if checkpoint is not None and self.store.intact([checkpoint]):
                    return step, checkpoint
        return 0, None

    def _update_inputs(self, step: int) -> UpdateInputs:
        """What the update of a step was given. Raises DamagedArtifact when its commit cannot be read."""
        if step in self._announced:
            return self._announced[step]
        commit, before = self.store.read_commit(step), self.store.read_commit(step - 1)
        return UpdateInputs(commit.artifacts["batch"], before.state["beta"])

    # ---- starting and restarting -----------------------------------------------------------------------------------

    def _start(self) -> None:
        if ray.is_initialized():
            return
        address = os.environ.get("RAY_ADDRESS")
        settings = self.config
        local = {} if address else {
            "num_cpus": max(os.cpu_count() or 1, settings.learner.threads + settings.rollout.threads),
            "include_dashboard": False,
        }  # fmt: skip
        ray.init(address=address, logging_level=logging.WARNING, log_to_driver=False, **local)

    def _start_learner(self) -> Any:
        options = {"num_cpus": self.config.learner.threads, "num_gpus": self._gpus()}
        settings = self.config.model_dump(mode="json")
        return ray.remote(LearnerActor).options(**options).remote(settings, str(self.store.directory.absolute()))

    def _start_engine(self) -> Any:
        options = {"num_cpus": self.config.rollout.threads, "num_gpus": self._gpus()}
        return ray.remote(EngineActor).options(**options).remote(self.config.model_dump(mode="json"))

    def _gpus(self) -> float:
        """Learner and engine share a GPU where there is one."""
        wants = self.config.learner.device != "cpu"
        return 0.5 if wants and ray.cluster_resources().get("GPU", 0) else 0

    async def _persistently(self, role: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work`; when an actor dies under it, rebuild and do it again, up to ATTEMPTS times."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await work()
            except RayActorError as error:
                logger.warning("%s died (attempt %d of %d): %s", role, attempt, ATTEMPTS, error)
                self.shut_down()
                last = error
        raise WorkerError(f"The {role} died {ATTEMPTS} times in the same phase: {last}") from last
