"""The alarm on an engine that samples from other weights than it should: its log-probs against the learner's.

Covered: a training step, all of whose tokens are compared in the course of it; the bootstrap and evaluations, some of
whose responses the learner looks at for this alone. Not covered: the measures themselves (algorithms/losses.py).
"""

import numpy as np
import pandas as pd
from pydantic import BaseModel

from ares.errors import UserError
from ares.runs import Step
from ares.step import GREEDY, sampled_rows, token_batch
from ares.store import Ref
from tasks.phase import phase

COMPARED = 64
"""Responses of a bootstrap or an evaluation that the learner looks at: wrong weights show in every one of them."""
SHARDS = 8
"""Shards that they are taken from: the first, the last and some between; of each from its first row to its last, since
every engine answers a part of each shard."""
MEAN = "mismatch/logprob_diff_mean"


class EngineMismatch(UserError, RuntimeError):
    """The engine's log-probs are not the learner's: it sampled from another policy than the one being trained."""


class Mismatch(BaseModel):
    """Mean |log-prob difference| of engine and learner over the responses that were compared (nats a token)."""

    mean: float


@phase("compare")
async def compare(step: Step, rollouts: list[Ref], purpose: str, temperature: float) -> Mismatch:
    """Have the learner, whose policy is the one after the step, look at responses from all over a draw."""
    shards = [step.run.store.read_rows(rollouts[shard]) for shard in _spread(len(rollouts), SHARDS)]
    some = [_some(rows[rows["sample"] != GREEDY], COMPARED // len(shards)) for rows in shards]
    batch = token_batch(sampled_rows(some, step.run.problems(purpose)), step.run.pad_id)
    return Mismatch(mean=(await step.run.cluster.mismatch(step.number, batch, temperature))[MEAN])


def _some(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    return rows.iloc[_spread(len(rows), count)]


def _spread(size: int, count: int) -> list[int]:
    """At most so many of the numbers below `size`, the first and the last among them."""
    places: list[int] = np.linspace(0, size - 1, min(size, count)).round().astype(int).tolist()
    return places


async def check_draw(step: Step, rollouts: list[Ref], purpose: str, temperature: float) -> dict[str, float]:
    """The mismatch of a bootstrap's or an evaluation's samples, as a metric. Raises EngineMismatch.

    Without a limit nothing is compared: masked-diffusion models cannot be, and nobody asked.
    """
    if step.config.rollout.max_mismatch is None:
        return {}
    mismatch = (await compare(step, rollouts, purpose, temperature)).mean
    _check(step, rollouts, mismatch, f"step {step.number}, {purpose}")
    return {f"mismatch/{purpose}": mismatch}


def check_mismatch(step: Step, rollouts: list[Ref], metrics: dict[str, float]) -> None:
    """Raise EngineMismatch when the step's own tokens show an engine with other weights than the learner's.

    Every sampled token is compared, so this is the check that the weights' update in place worked. Stale samples differ
    by the update in between, and are not checked.
    """
    if not step.is_stale:
        _check(step, rollouts, metrics.get(MEAN, 0.0), f"step {step.number}")


def _check(step: Step, rollouts: list[Ref], mismatch: float, what: str) -> None:
    """The samples are discarded: a resumed run draws them again, from an engine that was started anew."""
    limit = step.config.rollout.max_mismatch
    if limit is None or mismatch <= limit:
        return
    for ref in rollouts:
        step.run.store.discard(ref)
    raise EngineMismatch(
        f"{what}: the log-probs of {step.config.rollout.engine} and learner differ by {mismatch:.4g} nats a token "
        f"(rollout.max_mismatch={limit}). Start the run again: its samples are drawn anew. If the difference stays, "
        "the engine computes another model or in another precision: rollout.engine=transformers is the reference, and "
        "rollout.max_mismatch raises the bound."
    )
