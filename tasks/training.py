"""Phases from samples to the next policy: experience, shape, update, evaluate, checkpoint; the end of the bootstrap.

Not covered: sampling and grading (tasks/sampling.py), what is computed (ares/step), the order of phases and the commit
(flows/train.py).
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pydantic import BaseModel, Field

from algorithms.protocol import DataProto
from ares.grading import Teacher
from ares.learner import UpdateResult
from ares.runs import Step
from ares.step import (
    Refill,
    RunState,
    as_sampled,
    bootstrapped,
    evaluation_metrics,
    evaluation_table,
    graded,
    in_training_order,
    joined_rows,
    learner_rows,
    measured_batch,
    readable_rows,
    rewarded,
    select_rows,
    shape,
    token_batch,
)
from ares.store import Ref
from tasks.phase import phase

OF_UPDATES = ("uid", "sample", "difficulty", "media_references")
"""Columns of a batch that the learner reads; the rest is in the table of samples."""


class Samples(BaseModel):
    """The shards whose rows make a batch, and the slots of the groups that are trained on."""

    rollouts: list[Ref]
    scores: list[Ref]
    slots: list[int] = []
    """Empty: every group."""
    cpu_seconds: float = Field(0.0, exclude=True)
    """Of all programs that were judged. They differ between executions, so no key covers them."""


class Experience(BaseModel):
    """What the learner has measured of the samples of some shards."""

    rollouts: list[Ref]
    slots: list[int]
    """Groups that were measured; empty: every one."""
    measured: Ref


class Bootstrap(BaseModel):
    """Result of the bootstrap: a readable table of its samples, the state, the metrics."""

    samples: Ref
    state: dict[str, Any]
    metrics: dict[str, float]


class ShapedBatch(Bootstrap):
    """Result of shaping: the same of a step, and the batch for the update."""

    batch: Ref


class EvaluationResult(BaseModel):
    """Held-out accuracy after a step."""

    rows: Ref
    metrics: dict[str, float]


class Checkpoint(BaseModel):
    """A weight checkpoint."""

    checkpoint: Ref


@phase("experience")
async def experience(step: Step, rollouts: list[Ref], slots: list[int], name: str) -> Experience:
    """Have the learner measure log-probs and exact entropies of samples; with `slots`, of these groups only.

    With algorithm.policy.old_log_probs=engine, the engine's values are used instead. A reference behind a URL is asked
    last, and not of the bootstrap, which needs none.
    """
    asks = step.config.model.asks_reference and step.number > 0
    store, batch = step.run.store, token_batch(_sampled(step, rollouts, slots), step.run.pad_id)
    if step.config.algorithm.policy.old_log_probs == "engine":
        measured = store.write_file(step.path(f"{name}.safetensors"), as_sampled(batch).save)
    else:
        # Not through Ray's object store: if its node has died, putting a large object there ends this process.
        inputs = store.write_file(step.path(f"inputs-{name}.safetensors"), batch.save)
        version = max(step.number - 1, 0)
        target = f"own-{name}" if asks else name
        measured = await step.run.workers.experience(version, inputs, step.path(f"{target}.safetensors"))
        store.discard(inputs)
    if asks:
        with Teacher(step.config.model) as teacher:
            taught = await asyncio.to_thread(teacher.measure, batch)
        own, whole = measured, DataProto.load(store.path(measured)).union(taught)
        measured = store.write_file(step.path(f"{name}.safetensors"), whole.save)
        store.discard(own)
    return Experience(rollouts=rollouts, slots=slots, measured=measured)


@phase("shape")
async def shape_batch(step: Step, samples: Samples, found: list[Experience]) -> ShapedBatch:
    """HWE tokens, difficulty, targets, alpha, rewards, KL and advantages of the chosen groups; the next state."""
    run, rows = step.run, pd.concat(step.drawn, ignore_index=True)
    rows = in_training_order(rows[rows["slot"].isin(samples.slots)])
    batch = graded(select_rows(_measured(step, found), rows), rows)
    metrics = await asyncio.to_thread(shape, batch, step.state, step.config, run.is_trigger)
    columns = [name for name in OF_UPDATES if name in batch.non_tensor_batch]
    return ShapedBatch(
        batch=run.store.write_file(step.path("batch.safetensors"), lambda path: batch.save(path, columns)),
        samples=run.store.write_rows(step.path("samples.parquet"), readable_rows(batch)),
        state=step.state.state_dict(),
        metrics=metrics,
    )


@phase("update")
async def update(step: Step, batch: Ref) -> UpdateResult:
    """Train the policy on the batch."""
    progress = step.run.progress
    progress.begin("update", step.config.optimizer_steps)
    return await step.run.workers.update(step.number, lambda done: progress.reach("update", done))


@phase("evaluate")
async def evaluate(step: Step, samples: Samples, averaged: Samples | None) -> EvaluationResult:
    """Accuracy and length on the held-out problems, over all, per named set and per bucket of their own accuracy.

    averaged: samples of the averaged weights, if they are kept, whose metrics are named `val/ema/…`.
    """

    def measure(samples: Samples) -> tuple[pd.DataFrame, dict[str, float]]:
        rows = in_training_order(_joined(step, samples, "validation"))
        return rows, evaluation_metrics(rows, step.config.data.held_out_names, step.config.validation.turns)

    rows, metrics = measure(samples)
    if averaged is not None:
        _, of_average = measure(averaged)
        metrics |= {f"val/ema/{name.removeprefix('val/')}": value for name, value in of_average.items()}
    return EvaluationResult(
        rows=step.run.store.write_rows(step.path("evaluation.parquet"), evaluation_table(rows)),
        metrics=metrics,
    )


@phase("checkpoint")
async def checkpoint(step: Step) -> Checkpoint:
    """Write weights and optimiser as they are after the step."""
    return Checkpoint(checkpoint=await step.run.workers.save(step.number, f"checkpoints/{step.number:06d}"))


@phase("bootstrap")
async def summarise_bootstrap(step: Step, samples: Samples, found: list[Experience]) -> Bootstrap:
    """First difficulty of every problem, first targets, τ and alpha, from one pass over the train set.

    found: the learner's measures of each shard of the samples.
    """
    run = step.run
    state = RunState.initial(step.config, len(run.train_set))
    sampled = (_measured(step, [shard]) for shard in found)

    def with_grades() -> Iterator[DataProto]:
        for rollout, scores, measured in zip(samples.rollouts, samples.scores, found, strict=True):
            rows = in_training_order(_joined(step, Samples(rollouts=[rollout], scores=[scores]), "bootstrap"))
            yield graded(select_rows(_measured(step, [measured]), rows), rows)

    table, metrics = await asyncio.to_thread(
        bootstrapped, state, step.config, sampled, with_grades(), run.is_trigger, run.train_set.frame["id"]
    )
    written = run.store.write_rows(step.path("samples.parquet"), table)
    return Bootstrap(samples=written, state=state.state_dict(), metrics=metrics)


def choose(step: Step, samples: Samples, refill: Refill) -> None:
    """Let the refill choose among a draw's groups, and the state count and learn from all of them.

    Rewards come before the choice, by the test weights before the step: second turns that are not trained on count for
    their first turns.
    """
    drawn = _joined(step, samples, "rollout")
    rows = rewarded(drawn, step.config, step.run.state.tests)
    step.drawn.append(rows)
    step.state.count_sampled(drawn)
    step.state.absorb_sampled(rows, refill.take(rows))


def _sampled(step: Step, rollouts: list[Ref], slots: list[int]) -> pd.DataFrame:
    return learner_rows([step.run.store.read_rows(ref) for ref in rollouts], step.run.train_set, slots)


def _measured(step: Step, found: list[Experience]) -> DataProto:
    """Samples with what the learner has measured of them."""
    rollouts = [ref for each in found for ref in each.rollouts]
    rows = _sampled(step, rollouts, [slot for each in found for slot in each.slots])
    measured = [DataProto.load(step.run.store.path(each.measured)) for each in found]
    return measured_batch(rows, measured, step.run.pad_id)


def _joined(step: Step, samples: Samples, purpose: str) -> pd.DataFrame:
    """Samples with their scores and problems."""
    rollouts, scores = ([step.run.store.read_rows(ref) for ref in refs] for refs in (samples.rollouts, samples.scores))
    return joined_rows(rollouts, scores, step.run.problems(purpose))
