"""Phases of learning from data: the next rows of the train set, and their batch.

Not covered: the order of phases (flows/learn.py), what a row is worth (ares/step/demonstrations.py).
"""

import pandas as pd
from pydantic import BaseModel

from algorithms.protocol import DataProto
from ares.runs import Step
from ares.step import demonstrated_rows, sampled_rows, token_batch, weigh
from ares.store import Ref
from tasks.phase import phase
from tasks.training import Experience

OF_UPDATES = ("uid", "sample")
"""Columns of a batch that the learner reads."""
SHOWN = ["id", "slot", "sample", "prompt", "response", "tokens"]
"""Columns of the readable table."""


class WeighedRows(BaseModel):
    """The batch for the update, a readable table of it, and metrics."""

    batch: Ref
    samples: Ref
    metrics: dict[str, float]


def no_rows(step: Step) -> Ref:
    """Write the readable table of a step that has learnt from nothing: step 0."""
    return step.run.store.write_rows(step.path("samples.parquet"), pd.DataFrame(columns=SHOWN))


def next_rows(step: Step) -> Ref:
    """Write the next rollout.prompts rows of the train set; the state's cursor and counters advance."""
    run, counters = step.run, step.state.counters
    ids = run.next_prompts(step.state, step.config.rollout.prompts, step.number)
    rows = demonstrated_rows(run.train_set.rows(ids))
    counters.prompts += len(ids)
    counters.samples += len(rows)
    counters.tokens += int(rows["tokens"].sum())
    return run.store.write_rows(step.path("rows.parquet"), rows)


@phase("shape")
async def weigh_rows(step: Step, rows: Ref, found: list[Experience]) -> WeighedRows:
    """The rows as a batch, in which every token weighs what it counts in the loss. found: of pairs, what the learner
    has measured of them."""
    run = step.run
    table = sampled_rows([run.store.read_rows(rows)], run.train_set)
    batch = token_batch(table, run.pad_id)
    for each in found:
        batch = batch.union(DataProto.load(run.store.path(each.measured)))
    metrics = weigh(batch, step.config)
    return WeighedRows(
        batch=run.store.write_file(step.path("batch.safetensors"), lambda path: batch.save(path, OF_UPDATES)),
        samples=run.store.write_rows(step.path("samples.parquet"), table[SHOWN]),
        metrics=metrics,
    )
