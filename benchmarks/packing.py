"""One update on responses of skewed lengths: rows padded as they come, sorted by length, packed.

CPU seconds of one thread (process time), so that other work on the machine counts little. The three must agree.

    python -m benchmarks.packing [ROWS]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from algorithms.protocol import DataProto
from ares.batch import to_batch
from ares.learner import Learner
from ares.packing import micro_batches
from ares.profiles import load
from benchmarks.models import random_qwen

REPEATS = 3


def skewed(count: int) -> list[int]:
    """Response lengths: log-normal, median 64, cut at 480 tokens."""
    rng = np.random.default_rng(0)
    return np.clip(rng.lognormal(np.log(64), 0.9, count), 4, 480).astype(int).tolist()


def batch(lengths: list[int]) -> DataProto:
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {
            "slot": row // 8, "id": f"p{row // 8}", "sample": row % 8, "answer": "1", "accuracy": 1.0, "format": 1.0,
            "prompt_token_ids": rng.integers(3, 300, 24).tolist(), "token_ids": rng.integers(3, 300, length).tolist(),
            "log_probs": np.zeros(length, np.float32), "finish_reason": "stop",
        }
        for row, length in enumerate(lengths)
    )  # fmt: skip
    found = to_batch(rows, 0)
    shape = found.tensor("responses").shape
    found.batch["advantages"] = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    found.batch["importance_weights"] = torch.ones(shape)
    found.batch["old_log_probs"] = torch.full(shape, -5.7)
    return found


def as_they_come(lengths: torch.Tensor, budget: int) -> list[torch.Tensor]:
    """Rows in their order, each batch padded to the longest of all."""
    return list(torch.arange(len(lengths)).split(max(1, budget // int(lengths.max()))))


def measured(
    model: Path, rows: DataProto, pack: bool, order: Callable[[torch.Tensor, int], list[torch.Tensor]]
) -> tuple[float, dict[str, torch.Tensor]]:
    """Median CPU seconds of an update, and the weights after the first."""
    prompts = len(rows) // 8
    settings = [f"model.path={model}", "algorithm.kl.placement=none", f"rollout.prompts={prompts}"]
    settings += [f"learner.global_batch_prompts={prompts}", "learner.warmup_steps=0", "learner.lr=1e-4"]
    learner = Learner(load("tiny-math", settings))
    learner.policy.packs = pack
    learner._micro_batches = lambda part: order(part.tensor("attention_mask").sum(1), 8192)
    seconds, after = [], {}
    for repeat in range(REPEATS):
        started = time.process_time()
        learner.update(rows)
        seconds.append(time.process_time() - started)
        if repeat == 0:
            after = {name: tensor.clone() for name, tensor in learner.weights().items()}
    return sorted(seconds)[REPEATS // 2], after


def main() -> None:
    torch.set_num_threads(1)
    rows = batch(skewed(int(sys.argv[1]) if len(sys.argv) > 1 else 128))
    tokens = int(rows.tensor("attention_mask").sum())
    ways = {
        "padded": (False, as_they_come),
        "sorted by length": (False, lambda lengths, budget: micro_batches(lengths, budget, pack=False)),
        "packed": (True, micro_batches),
    }
    with tempfile.TemporaryDirectory() as folder:
        model = random_qwen(Path(folder) / "model")
        found = {name: measured(model, rows, *way) for name, way in ways.items()}
    padded, expected = found["padded"]
    for name, (seconds, weights) in found.items():
        apart = max(float((weights[key] - expected[key]).abs().max()) for key in expected)
        print(f"{name:18s} {seconds:6.2f} cpu-s  {tokens / seconds:8.0f} tokens/cpu-s  "
              f"{padded / seconds:5.2f}× padded  weights differ by {apart:.1e}")  # fmt: skip


if __name__ == "__main__":
    main()
