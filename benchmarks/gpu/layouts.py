"""Updates on responses of skewed lengths: rows padded as they come, sorted by length, packed, with shared prompts."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from algorithms.protocol import DataProto
from ares.config.profiles import load
from ares.learner.learner import Learner
from ares.models.packing import RowSizes, micro_batches
from ares.step.collate import graded, token_batch

REPEATS, GROUP = 3, 8


def skewed(count: int, median: int = 64, longest: int = 480) -> list[int]:
    """Response lengths: log-normal, cut at the longest."""
    rng = np.random.default_rng(0)
    return np.clip(rng.lognormal(np.log(median), 0.9, count), 4, longest).astype(int).tolist()


def batch(lengths: list[int], prompt: int = 24) -> DataProto:
    """Rows in groups of GROUP, whose prompts have this many tokens."""
    rng = np.random.default_rng(1)
    prompts = [rng.integers(3, 300, prompt).tolist() for _ in range(-(-len(lengths) // GROUP))]
    rows = pd.DataFrame(
        {
            "slot": row // GROUP, "id": f"p{row // GROUP}", "sample": row % GROUP,
            "answer": "1", "accuracy": 1.0, "format": 1.0,
            "prompt_token_ids": prompts[row // GROUP], "tokens": length,
            "token_ids": rng.integers(3, 300, length).tolist(),
            "log_probs": np.zeros(length, np.float32), "finish_reason": "stop",
        }
        for row, length in enumerate(lengths)
    )  # fmt: skip
    made = graded(token_batch(rows, 0), rows)
    shape = made.tensor("responses").shape
    made.batch["advantages"] = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    made.batch["importance_weights"] = torch.ones(shape)
    made.batch["old_log_probs"] = torch.full(shape, -5.7)
    return made


Division = Callable[[RowSizes, int], list[torch.Tensor]]


def as_they_come(sizes: RowSizes, budget: int) -> list[torch.Tensor]:
    """Rows in their order, each batch padded to the longest of all."""
    return list(torch.arange(len(sizes)).split(max(1, budget // int(sizes.tokens.max()))))


WAYS: dict[str, tuple[bool, bool, Division]] = {
    "padded": (False, False, as_they_come),
    "sorted by length": (False, False, lambda sizes, budget: micro_batches(sizes, budget, pack=False)),
    "packed": (True, False, micro_batches),
    "prompts shared": (True, True, micro_batches),
}
"""Whether rows are packed, whether prompts are shared, and which rows pass together."""


def measured(
    model: Path,
    rows: DataProto,
    pack: bool,
    share: bool,
    order: Division,
    settings: Sequence[str],
    clock: Callable[[], float],
) -> float:
    """Median seconds of an update by a clock. settings: besides the model's."""
    prompts = len(rows) // GROUP
    common = [f"model.path={model}", "algorithm.kl.placement=none", f"rollout.prompts={prompts}"]
    common += [f"learner.global_batch_prompts={prompts}", "learner.warmup_steps=0", "learner.lr=1e-4"]
    learner = Learner(load("tiny-math", [*common, "learner.micro_batch_tokens=8192", *settings]))
    budget = learner.config.learner.micro_batch_tokens
    learner.policy.packs = pack
    sizes = learner.policy.row_sizes

    def given_sizes(batch: DataProto) -> RowSizes:
        return sizes(batch) if share else RowSizes.alone(sizes(batch).tokens)

    def micro_batches(batch: DataProto) -> list[tuple[torch.Tensor, bool]]:
        return [(rows, False) for rows in order(given_sizes(batch), budget)]

    learner.policy.row_sizes = given_sizes  # type: ignore[method-assign]
    learner._micro_batches = micro_batches  # type: ignore[method-assign]
    seconds = []
    for _ in range(REPEATS):
        started = clock()
        learner.update(rows)
        seconds.append(clock() - started)
    return sorted(seconds)[REPEATS // 2]
