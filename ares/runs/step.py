"""One step of an open run: its paths, the keys of its phases, the state it advances, its commit.

Not covered: what its phases do (tasks/), the order of phases (flows/train.py).
"""

import hashlib
import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from ares.config import Config
from ares.runs.resumption import sampled_version
from ares.step import RunState
from ares.store import Commit, Memo, Ref

if TYPE_CHECKING:
    from ares.runs.run import Run

logger = logging.getLogger(__name__)
DRAWN = ("turn", "rollout", "score", "experience", "compare")
"""Phases of the bootstrap that do not depend on settings of rewards and of the algorithm."""


class Step:
    """One step of a run; 0 is the bootstrap. ahead: its first responses are drawn while earlier steps run."""

    def __init__(self, run: "Run", number: int, ahead: bool = False) -> None:
        self.run = run
        self.number = number
        self._after = self.sampled_version if ahead else number - 1
        """The step whose policy its phases start from."""
        self.batch: Ref | None = None
        """The batch of its update, from then on: later phases see the weights that it makes."""
        self.drawn: list[pd.DataFrame] = []
        """The rows of each of its draws, with rewards."""
        self.timings: dict[str, float] = {}
        """Seconds per phase of this execution; of shards that run at the same time, those of the clock."""
        self._running: dict[str, tuple[int, float]] = {}
        """How many phases of a name run, and since when there is one."""
        self.started = time.perf_counter()

    @property
    def config(self) -> Config:
        """The run's configuration."""
        return self.run.config

    def path(self, name: str) -> str:
        """Path of an artifact of this step, relative to the run directory."""
        return f"{self.run.store.step_path(self.number)}/{name}"

    @property
    def memo(self) -> Memo:
        """What its phases have found."""
        return self.run.store.memo(self.number)

    @cached_property
    def state(self) -> RunState:
        """The state that the step advances: at first a copy of the run's."""
        return self.run.restored(self.run.state.state_dict())

    @property
    def sampled_version(self) -> int:
        """Version of the policy that this step's first responses are drawn from."""
        return sampled_version(self.config, self.number)

    @property
    def is_stale(self) -> bool:
        """Whether that policy is older than the one being trained."""
        return self.sampled_version < self.number - 1

    def key(self, phase: str, inputs: str) -> str:
        """Identity of a phase's result: the same run, settings, data, past, step and inputs give the same key.

        The past are hashes of what made the weights. A step that is done again may end differently (on a GPU, or if a
        program hits its time limit): results that later steps have kept are then another policy's.
        """
        identity = self.run.drawn if self.number == 0 and phase in DRAWN else self.run.identity
        past = [self.run.store.digest(self._after) if self.number else None, self.batch.sha256 if self.batch else None]
        parts = (str(self.number), phase, inputs, *filter(None, past))
        return owned_key(identity, hashlib.sha256(chr(31).join(parts).encode()).hexdigest()[:24])

    def train_on(self, batch: Ref) -> None:
        """Set the batch of the update: until the step is committed, a rebuilt learner replays it from here."""
        beta = self.state.beta
        self.run.workers.announce_update(self.number, batch, None if beta is None else beta.state_dict())
        self.batch = batch

    def commit(self, artifacts: dict[str, Ref], metrics: dict[str, float]) -> None:
        """Finish the step: it is never done again, and the run's state becomes the one after it."""
        run = self.run
        if unknown := sorted(name for name, value in metrics.items() if not math.isfinite(value)):
            logger.warning("step %d: metrics that are not finite are left out: %s", self.number, ", ".join(unknown))
        self.state.step = self.number
        commit = Commit(
            step=self.number,
            parent=run.commit.digest() if run.commit else None,
            artifacts=artifacts,
            state=self.state.state_dict(),
            metrics={name: value for name, value in metrics.items() if name not in unknown},
            timings=self._timings(),
            timestamp=time.time_ns() // 1_000_000,
        )
        run.grader.forget()
        run.store.write_commit(commit)
        run.store.forget(self.number)
        run.advance(commit)
        needed = sampled_version(self.config, self.number + 1)
        run.store.prune_checkpoints(self.number, self.config.train.keep_checkpoints, needed)

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the seconds of a phase to `timings`; while several of its name run, they are counted once."""
        running, since = self._running.get(phase, (0, 0.0))
        self._running[phase] = running + 1, since if running else time.perf_counter()
        try:
            yield
        finally:
            running, since = self._running[phase]
            self._running[phase] = running - 1, since
            if running == 1:
                seconds = time.perf_counter() - since
                self.timings[f"timing_s/{phase}"] = self.timings.get(f"timing_s/{phase}", 0.0) + seconds

    def _timings(self) -> dict[str, float]:
        total = time.perf_counter() - self.started
        tokens = self.state.counters.tokens - self.run.state.counters.tokens
        timings = self.timings | {
            "timing_s/step": total,
            "perf/throughput": tokens / max(total, 1e-9),
            "perf/total_num_tokens": float(tokens),
        }
        if "timing_s/scoring_wait" in timings:
            timings["perf/scoring_wait_share"] = timings["timing_s/scoring_wait"] / max(total, 1e-9)
        return timings


def owned_key(identity: str, key: str) -> str:
    """A key as it is for a run with this identity: so a fork takes over results."""
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}-{key.rpartition('-')[2]}"
