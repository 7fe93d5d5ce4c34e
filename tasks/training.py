"""Phases from samples to the next policy: experience, shape, update, evaluate, checkpoint; the end of the bootstrap.

Not covered: sampling and grading (tasks/sampling.py), what is computed (ares/step), the order of phases and the commit
(flows/train.py).
"""

import asyncio
from typing import Any

import pandas as pd
from pydantic import BaseModel

from algorithms.protocol import DataProto
from ares.runs import Step
from ares.step import (
    GREEDY,
    Refill,
    RunState,
    as_sampled,
    bootstrapped,
    evaluation_metrics,
    evaluation_table,
    gathered,
    graded,
    in_training_order,
    joined_rows,
    lag_metrics,
    readable_rows,
    rewarded,
    sampled_rows,
    shape,
    token_batch,
)
from ares.store import Ref
from tasks.phase import phase


class Samples(BaseModel):
    """The shards whose rows make a batch, and the slots of the groups that are trained on."""

    rollouts: list[Ref]
    scores: list[Ref]
    slots: list[int]
    """Empty: every group."""


class Batch(BaseModel):
    """A folder with a DataProto."""

    batch: Ref


class ShapedBatch(BaseModel):
    """Result of shaping: the batch for the update, a readable table of its samples, the state, the metrics."""

    batch: Ref
    samples: Ref
    state: Ref
    metrics: dict[str, float]


class PolicyUpdate(BaseModel):
    """Result of the update besides the new weights."""

    metrics: dict[str, float]
    beta: dict[str, Any] | None


class EvaluationResult(BaseModel):
    """Held-out accuracy after a step."""

    rows: Ref
    accuracy: float
    mean_length: float
    metrics: dict[str, float]


class Checkpoint(BaseModel):
    """A weight checkpoint."""

    checkpoint: Ref


@phase("experience")
async def experience(step: Step, rollouts: list[Ref], slots: list[int], folder: str) -> Batch:
    """Have the learner add log-probs and exact entropies to samples; with `slots`, of these groups only.

    With algorithm.policy.old_log_probs=engine, the engine's values are used instead.
    """
    rows = sampled_rows([step.run.store.read_rows(ref) for ref in rollouts], step.run.train_set)
    rows = rows[(rows["sample"] != GREEDY) & (rows["slot"].isin(slots) if slots else True)]
    batch = token_batch(rows, step.run.pad_id)
    if step.config.algorithm.policy.old_log_probs == "engine":
        return Batch(batch=step.run.store.write_folder(step.path(folder), as_sampled(batch).save))
    # Not through Ray's object store: if its node has died, putting a large object there ends this process.
    inputs = step.run.store.write_folder(step.path(f"inputs-{folder}"), batch.save)
    version = max(step.number - 1, 0)
    whole = await step.run.cluster.experience(version, inputs, step.path(folder))
    step.run.store.discard(inputs)  # the learner's folder includes them
    return Batch(batch=whole)


@phase("shape")
async def shape_batch(step: Step, samples: Samples, found: list[Batch], state: dict[str, Any]) -> ShapedBatch:
    """HWE tokens, difficulty, targets, alpha, rewards, KL and advantages of the chosen groups; the next state."""
    run = step.run
    after = run.restored(state)
    rows = in_training_order(_rewarded(step, samples))
    batch = graded(gathered([DataProto.load(run.store.folder(part.batch)) for part in found], rows, run.pad_id), rows)
    metrics, table = await asyncio.to_thread(shape, batch, after, step.config, run.is_trigger), readable_rows(batch)
    if step.config.rollout.parts > 1:
        metrics |= lag_metrics(table, step.number, step.config.rollout)
    return ShapedBatch(
        batch=run.store.write_folder(step.path("batch"), batch.save),
        samples=run.store.write_rows(step.path("samples.parquet"), table),
        state=run.store.write_json(step.path("state.json"), after.state_dict()),
        metrics=metrics,
    )


@phase("update")
async def update(step: Step, batch: Ref) -> PolicyUpdate:
    """Train the policy on the batch."""
    progress = step.run.progress
    progress.begin("update", step.config.optimizer_steps)
    result = await step.run.cluster.update(step.number, lambda done: progress.reach("update", done))
    return PolicyUpdate(metrics=result.metrics, beta=result.beta)


@phase("evaluate")
async def evaluate(step: Step, samples: Samples) -> EvaluationResult:
    """Accuracy and length on the held-out problems, over all, per named set and per bucket of their own accuracy."""
    rows = in_training_order(_joined(step, samples, "validation"))
    metrics = evaluation_metrics(rows, step.config.data.held_out_names, step.config.validation.turns)
    return EvaluationResult(
        rows=step.run.store.write_rows(step.path("evaluation.parquet"), evaluation_table(rows)),
        accuracy=metrics["val/accuracy"],
        mean_length=metrics["val/response_length"],
        metrics=metrics,
    )


@phase("checkpoint")
async def checkpoint(step: Step) -> Checkpoint:
    """Write weights and optimiser as they are after the step."""
    return Checkpoint(checkpoint=await step.run.cluster.save(step.number, f"checkpoints/{step.number:06d}"))


@phase("bootstrap")
async def summarise_bootstrap(step: Step, samples: Samples, found: list[Batch]) -> ShapedBatch:
    """First difficulty of every problem, first targets, τ and alpha, from one pass over the train set.

    found: the learner's measures of each shard of the samples (the name is part of the phase's key).
    """
    run = step.run
    state = RunState.initial(step.config, len(run.train_set))
    sampled = (DataProto.load(run.store.folder(shard.batch)) for shard in found)
    shards = zip(samples.rollouts, samples.scores, found, strict=True)
    with_grades = (_graded_shard(step, *shard) for shard in shards)
    table, metrics = await asyncio.to_thread(bootstrapped, state, step.config, sampled, with_grades, run.is_trigger)
    ref = run.store.write_rows(step.path("samples.parquet"), table)
    return ShapedBatch(
        batch=ref, samples=ref, state=run.store.write_json(step.path("state.json"), state.state_dict()), metrics=metrics
    )


def choose(step: Step, samples: Samples, refill: Refill, state: RunState) -> None:
    """Let the refill choose among a draw's groups, and the state count and learn from all of them."""
    rows = _rewarded(step, samples)
    state.absorb_sampled(rows, refill.take(rows))


def _joined(step: Step, samples: Samples, purpose: str) -> pd.DataFrame:
    """Samples with their scores and problems."""
    rollouts, scores = ([step.run.store.read_rows(ref) for ref in refs] for refs in (samples.rollouts, samples.scores))
    return joined_rows(rollouts, scores, step.run.problems(purpose))


def _rewarded(step: Step, samples: Samples) -> pd.DataFrame:
    """Samples with their rewards, by the test weights before the step; with `slots`, of these groups only.

    Rewards come before the choice of groups: second turns that are not trained on count for their first turns.
    """
    tables = [*samples.rollouts, *samples.scores]
    if step.rewarded is None or step.rewarded[0] != tables:
        step.rewarded = tables, rewarded(_joined(step, samples, "rollout"), step.config, step.run.state.tests)
    rows = step.rewarded[1]
    return rows[rows["slot"].isin(samples.slots)] if samples.slots else rows


def _graded_shard(step: Step, rollout: Ref, scores: Ref, measured: Batch) -> DataProto:
    """A shard of the bootstrap with the learner's measures and the grades."""
    rows = in_training_order(_joined(step, Samples(rollouts=[rollout], scores=[scores], slots=[]), "bootstrap"))
    batch = DataProto.load(step.run.store.folder(measured.batch))
    return graded(gathered([batch], rows, step.run.pad_id), rows)
