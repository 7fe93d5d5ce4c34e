"""Learner and engine of a run as the phases see them: each call names the policy version that it is meant for.

    version        k−1            k                          k+1
    learner      experience ─▶ update ─────────────────────▶ experience …
                                 │ weights (when an engine is next asked for version k)
    engine                       └▶ sample (shard 0, 1, …)

Covered: bringing learner and engine to a version, rebuilding them from the run directory. The run directory is the
truth: a learner at version k is the newest checkpoint at or before k with the committed batches since then replayed.
Not covered: where learner and engine live (plain.py: in this process; ares/cluster: Ray actors).
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import pandas as pd
from torch import Tensor

from algorithms.protocol import DataProto
from ares.config import ENGINES, Config
from ares.engines import Request, SamplingSettings
from ares.learner import UpdateResult
from ares.store import Ref, RunStore
from ares.workers.replay import newest_checkpoint

logger = logging.getLogger(__name__)
T = TypeVar("T")
Finished = Callable[[pd.DataFrame], None]
"""Called with rows as they finish, indexed by request."""
UpdateInputs = tuple[Ref, dict[str, Any] | None]
"""What besides the weights decides an update: the batch, and the state of the β controller."""


def _ignore(part: Any) -> None:
    """What is told to nobody."""


class Workers(ABC):
    """Learner and engine of one run, which are called as in plain.py.

    sampling: the engine's configuration, if not the learner's.
    """

    def __init__(self, config: Config, store: RunStore, sampling: Config | None = None) -> None:
        self.config = config
        self.sampling = sampling or config
        self.store = store
        self._learner: Any = None
        self._learner_version: int | None = None
        self._engine: Any = None
        self._engine_holds: tuple[int, bool] | None = None
        """The version of the engine's weights, and whether they are averaged."""
        self._uncommitted: dict[int, UpdateInputs] = {}
        self._said: set[str] = set()
        self._weights: dict[int, Any] = {}
        """The weights of versions that engines may yet need (rollout.max_staleness)."""
        self._learning = asyncio.Lock()
        """Held while the learner works: it has one version at a time."""
        self._sampling = asyncio.Lock()
        """Held while the engine works, likewise. Calls are served in the order in which they were made."""

    # ---- what phases ask for ---------------------------------------------------------------------------------------

    async def sample(
        self,
        version: int,
        requests: list[Request],
        settings: SamplingSettings,
        finished: Finished = _ignore,
        averaged: bool = False,
    ) -> pd.DataFrame:
        """Sample from the policy of a version, or from its averaged weights (learner.ema): one row a request, in order.

        `finished` is given the rows as they finish, indexed by request; after an actor's death some come twice.
        """
        return await self._persistently("engine", self._sample, (version, averaged), requests, settings, finished)

    async def _sample(
        self, weights: tuple[int, bool], requests: list[Request], settings: SamplingSettings, finished: Finished
    ) -> pd.DataFrame:
        async with self._sampling:
            engine = await self._engine_at(*weights)
            return pd.concat(await engine.stream(finished, "generate", requests, settings)).sort_index()

    async def experience(self, version: int, batch: Ref, target: str) -> Ref:
        """Write log-probs, entropies and values of a batch under the policy of a version to `target`."""
        return await self._persistently("learner", self._ask_learner, version, "experience", batch, target)

    async def log_probs(self, version: int, rows: DataProto, temperature: float) -> Tensor:
        """The log-prob of each response token of rows under the policy of a version, [B, L]."""
        return await self._persistently("learner", self._ask_learner, version, "log_probs", rows, temperature)

    async def save(self, version: int, target: str) -> Ref:
        """Write the checkpoint of a version."""
        return await self._persistently("learner", self._ask_learner, version, "save", target)

    async def _ask_learner(self, version: int, method: str, *arguments: Any) -> Any:
        async with self._learning:
            learner = await self._learner_at(version)
            gathers = self.config.learner.sharded or self.config.model.lora is not None
            if method != "save" or gathers:  # else it needs no memory that the engine has
                await self._engine_sleeps()
            return await learner.call(method, *arguments)

    def announce_update(self, step: int, batch: Ref, beta: dict[str, Any] | None) -> None:
        """Set the inputs of a step's update before they are committed: a rebuilt learner replays it from here."""
        self._uncommitted = {step: (batch, beta)}

    async def update(self, step: int, progress: Callable[[int], None] = _ignore) -> UpdateResult:
        """Train on the announced batch: the policy after step − 1 becomes that after `step`.

        `progress` is told how many optimiser steps are done.
        """
        return await self._persistently("learner", self._update, step, progress)

    async def _update(self, step: int, progress: Callable[[int], None]) -> UpdateResult:
        def count(part: int | UpdateResult) -> None:
            if isinstance(part, int):
                progress(part)

        async with self._learning:
            learner = await self._learner_at(step - 1)
            if self.config.rollout.max_staleness:
                self._held(step - 1, learner)
            else:
                self._engine_holds = None  # its weights may be the learner's own
            await self._engine_sleeps()
            inputs = self._update_inputs(step)
            self._learner_version = None  # a cancelled update still completes
            try:
                *_, result = await learner.stream(count, "update", *inputs)
            except self.raised_by_the_learner:
                self.shut_down()  # half of the update may be in the weights
                raise
            self._learner_version = step
            assert isinstance(result, UpdateResult)
            return result

    def warm_up(self) -> None:
        """Start learner and engine now, so that they load during other work."""
        self._start()
        self._running_learner()
        if not self.takes_turns:
            self._engine = self._engine or self._start_engine()

    def shut_down(self) -> None:
        """End learner and engine; the next call starts them anew."""
        for handle in (self._learner, self._engine):
            if handle is not None:
                handle.kill()
        self._learner = self._engine = self._learner_version = self._engine_holds = None
        self._weights = {}

    def close(self) -> None:
        """End learner and engine for good."""
        self.shut_down()

    @property
    def answers_parts(self) -> bool:
        """Whether a call may be repeated with only those of its requests that have no response yet.

        On a CPU the last bits depend on what is sampled together; on a GPU none are promised.
        """
        return self.uses_gpus or bool(ENGINES.fact(self.config.rollout.engine, "independent"))

    @property
    def takes_turns(self) -> bool:
        """Whether learner and engine share GPUs: one sleeps while the other works. Known once they were started."""
        return self.uses_gpus and self.config.rollout.placement == "colocate"

    # ---- where learner and engine live -----------------------------------------------------------------------------

    raised_by_the_learner: tuple[type[Exception], ...] = (Exception,)
    """Errors after which the learner's weights may be half updated."""

    @property
    @abstractmethod
    def uses_gpus(self) -> bool:
        """Whether learner and engine are on GPUs. Known once they were started."""

    def _start(self) -> None:  # noqa: B027 (in this process nothing is needed)
        """Make ready what learner and engine need; called before every use of them."""

    @abstractmethod
    def _start_learner(self) -> Any: ...

    @abstractmethod
    def _start_engine(self) -> Any: ...

    async def _persistently(self, role: str, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Do `work`; where learner and engine can die, again with new ones. role: the one that works."""
        return await work(*arguments)

    # ---- bringing them to a version --------------------------------------------------------------------------------

    async def _engine_at(self, version: int, averaged: bool = False) -> Any:
        self._start()
        engine = self._engine or await self._new_engine()  # meanwhile the learner's side may end everything
        if self._engine_holds != (version, averaged):
            self._engine_holds = None
            weights = await self._weights_of(version, averaged)
            async with self._learning if self.takes_turns else nullcontext():  # it would put the engine to sleep
                await engine.call("load_weights", version, weights)
            self._engine_holds = version, averaged
        return engine

    async def _new_engine(self) -> Any:
        """Start the engine; on shared GPUs once the learner has loaded, and while it is idle: vLLM counts all memory
        that is taken while it starts as its own."""
        async with self._learning if self.takes_turns else nullcontext():
            self._start()  # while this waited, the learner's side may have ended everything
            if self.takes_turns:
                await self._running_learner().started()
            engine = self._engine = self._start_engine()
            self._engine_holds = None
            if self.takes_turns:
                await engine.started()
        return engine

    async def _weights_of(self, version: int, averaged: bool) -> Any:
        if version in self._weights and not averaged:
            return self._weights[version]
        async with self._learning:
            learner = await self._learner_at(version)
            # An average is of the newest version, so it is not kept for later.
            return learner.weights(averaged) if averaged else self._held(version, learner)

    def _held(self, version: int, learner: Any) -> Any:
        """The weights of a version, which the learner has now; they are kept where it may move on before an engine has
        loaded them."""
        stale = self.config.rollout.max_staleness
        if not stale:
            return learner.weights()
        if version not in self._weights:
            kept = {held: weights for held, weights in self._weights.items() if held >= version - stale}
            self._weights = kept | {version: learner.weights()}
        return self._weights[version]

    async def _engine_sleeps(self) -> None:
        """Free shared GPUs for the learner; the engine needs weights afterwards."""
        if self._engine is not None and self.takes_turns:
            self._engine_holds = None
            await self._engine.call("sleep")

    def _running_learner(self) -> Any:
        if self._learner is None:
            self._learner, self._learner_version = self._start_learner(), None
        return self._learner

    async def _learner_at(self, version: int) -> Any:
        self._start()
        # Read both now: while `version` is awaited, the engine's side may end the learner.
        learner, held = self._running_learner(), self._learner_version
        if held is None:
            await self._say_notes(learner)
            held = self._learner_version = await learner.call("version")
        return learner if held == version else await self._rewind(learner, version, held if held < version else None)

    async def _say_notes(self, learner: Any) -> None:
        """Say once what a user should know of how the model is computed."""
        for note in await learner.call("notes"):
            if note not in self._said:
                logger.warning(note)
                self._said.add(note)

    async def _rewind(self, learner: Any, version: int, held: int | None) -> Any:
        """Load the newest checkpoint at or before `version` and replay the batches committed since then."""
        checkpoint_version, checkpoint = newest_checkpoint(self.store, version)
        self._learner_version = self._engine_holds = None  # the engine's weights may be the learner's own
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
            await learner.stream(_ignore, "update", *self._update_inputs(step))
        if version > held:
            logger.info("replayed %d updates to reach the weights after step %d", version - held, version)
        self._learner_version = version
        return learner

    def _update_inputs(self, step: int) -> UpdateInputs:
        """The inputs of a step's update. Raises DamagedArtifact when its commit cannot be read."""
        if step in self._uncommitted:
            return self._uncommitted[step]
        commit, before = self.store.read_commit(step), self.store.read_commit(step - 1)
        return commit.artifacts["batch"], before.state["beta"]
