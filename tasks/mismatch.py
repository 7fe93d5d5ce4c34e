"""Detects an engine that samples from the wrong weights, by comparing its log-probs with the learner's.

Covered: training steps, whose tokens are all compared anyway; the bootstrap and evaluations, of which the learner
measures a few responses for this alone. Not covered: the measures themselves (algorithms/losses.py).
"""

import numpy as np
from pydantic import BaseModel

from algorithms.losses import importance_weights
from ares.errors import UserError
from ares.runs import Step
from ares.step import GREEDY, sampled_rows, token_batch
from ares.store import Ref
from tasks.phase import phase

COMPARED = 64
"""Responses of a bootstrap or an evaluation that are compared: wrong weights show in every one."""
SHARDS = 8
"""Shards that they are taken from, the first and last among them; spread over each shard, since every engine answers
a part of it."""
MEAN = "mismatch/logprob_diff_mean"


class EngineMismatch(UserError, RuntimeError):
    """The engine's log-probs differ from the learner's: it sampled from another policy than the one being trained."""


class Mismatch(BaseModel):
    """Mean |log-prob difference| of engine and learner over the compared responses (nats a token)."""

    mean: float


@phase("compare")
async def compare(step: Step, rollouts: list[Ref], purpose: str, temperature: float) -> Mismatch:
    """Compare responses from all over a draw with the learner's policy after the step."""
    shards = [step.run.store.read_rows(rollouts[shard]) for shard in _spread(len(rollouts), SHARDS)]
    sampled = [rows[rows["sample"] != GREEDY] for rows in shards]
    some = [rows.iloc[_spread(len(rows), COMPARED // len(shards))] for rows in sampled]
    batch = token_batch(sampled_rows(some, step.run.problems(purpose)), step.run.pad_id)
    log_probs = await step.run.workers.log_probs(step.number, batch, temperature)
    _, measures = importance_weights(log_probs, batch.tensor("engine_log_probs"), batch.tensor("response_mask"))
    return Mismatch(mean=measures[MEAN])


def _spread(size: int, count: int) -> list[int]:
    """At most `count` evenly spaced numbers below `size`, the first and last among them."""
    places: list[int] = np.linspace(0, size - 1, min(size, count)).round().astype(int).tolist()
    return places


async def check_draw(step: Step, rollouts: list[Ref], purpose: str, temperature: float) -> dict[str, float]:
    """The mismatch of a bootstrap's or an evaluation's samples, as a metric. Raises EngineMismatch.

    Nothing is compared without rollout.max_mismatch, as for masked-diffusion models, which cannot be compared.
    """
    if step.config.mismatch_bound is None:
        return {}
    mismatch = (await compare(step, rollouts, purpose, temperature)).mean
    _check(step, rollouts, mismatch, f"step {step.number}, {purpose}")
    return {f"mismatch/{purpose}": mismatch}


def check_mismatch(step: Step, rollouts: list[Ref], metrics: dict[str, float]) -> None:
    """Raise EngineMismatch if the step's own tokens show that engine and learner have different weights.

    Every token is compared, so this checks that the engine received the updated weights. Stale samples are not checked:
    they differ by the updates in between.
    """
    if not step.is_stale:
        _check(step, rollouts, metrics.get(MEAN, 0.0), f"step {step.number}")


def _check(step: Step, rollouts: list[Ref], mismatch: float, what: str) -> None:
    """Above the bound, delete the samples and what they were made of (turns of episodes, responses in parts), so that a
    resumed run draws them again from a new engine, and raise."""
    store, parts, limit = step.run.store, step.config.rollout.parts, step.config.mismatch_bound
    if limit is None or mismatch <= limit:
        return
    for ref in rollouts:
        store.discard(ref)
        shard = store.directory / ref.path
        for turn in shard.parent.glob(f"{shard.stem.replace('rollout', 'turn', 1)}-*.parquet"):
            store.remove(turn)
    for number in range(step.number, step.number + parts) if parts > 1 else ():
        for part in (store.directory / step.run.step(number).path("")).glob("under-way-*.parquet"):
            store.remove(part)
    raise EngineMismatch(
        f"{what}: the log-probs of {step.config.rollout.engine} and learner differ by {mismatch:.4g} nats a token "
        f"(rollout.max_mismatch={limit}). Start the run again: its samples are drawn anew. If the difference stays, "
        "the engine computes another model or in another precision: rollout.engine=transformers is the reference, and "
        "rollout.max_mismatch raises the bound."
    )
