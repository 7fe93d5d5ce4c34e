"""The state before the first step, from one pass over the train set: buckets, targets, τ and alpha.

Not covered: sampling and grading (flows/train.py), later steps (ares/step/shape.py).
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from torch import Tensor

from algorithms.protocol import DataProto
from ares.config import Config
from ares.step.collate import readable_rows
from ares.step.function_metrics import function_metrics
from ares.step.rewards import observe_tests
from ares.step.rows import scored_rows
from ares.step.shape import entropy_statistics, mark_hwe
from ares.step.state import Counters, RunState


def bootstrapped(
    state: RunState,
    config: Config,
    sampled: Iterable[DataProto],
    graded: Iterable[DataProto],
    is_trigger: Tensor | None,
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Advance the initial state to step 0; returns the table of samples and the metrics.

    sampled: the shards as the learner left them; graded: the same with grades. Each is iterated once, one after the
    other, so that only one shard is in memory at a time: τ needs every response before HWE tokens can be counted.
    Raises RewardError if nothing was graded.
    """
    threshold = state.threshold.update(np.concatenate([entropy_statistics(batch, config) for batch in sampled]))
    tables = []
    for batch in graded:
        entropy_statistics(batch, config)
        mark_hwe(batch, threshold, config, is_trigger)
        tables.append(readable_rows(batch))
    table = pd.concat(tables, ignore_index=True)
    scored = scored_rows(table)
    state.difficulty.update(
        scored["id"].to_numpy(),
        scored["accuracy"].to_numpy(dtype=float),
        scored["entropies"].to_numpy(dtype=float),
        scored["high_entropy_token_num"].to_numpy(dtype=float),
    )
    observe_tests(state.tests, table)
    state.step = 0
    tokens, unscored = int(table["tokens"].sum()), len(table) - len(scored)
    state.counters = Counters(table["id"].nunique(), len(table), tokens, unscored_samples=unscored)
    return table, state.metrics() | {
        "bootstrap/accuracy": float(scored["accuracy"].astype(float).mean()),
        "bootstrap/unscored": float(unscored),
        "bootstrap/response_length": tokens / len(table),
    } | function_metrics(table)
