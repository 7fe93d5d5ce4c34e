"""A large run opens at once: what the page asks for first is answered in less than two seconds of one core.

Processor time, since a test machine has other work; what a browser adds is measured in docs/history.md.
"""

import os
import threading
import time
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from ares.browse import serve
from ares.store import Ref, RunStore
from tests.ares.store_builders import commit

STEPS, GROUPS, SAMPLES, TOKENS = 200, 256, 16, 64
METRICS = 120


@pytest.fixture
def large(tmp_path: Path) -> RunStore:
    """200 steps × 4,096 samples with responses of a thousand characters; the steps have one content."""
    rng, rows = np.random.default_rng(0), GROUPS * SAMPLES
    words = np.array(["so", "then", "because", "twelve", "apples", "remain", "therefore"])
    samples = pd.DataFrame(
        {
            "slot": np.arange(rows) // SAMPLES, "sample": np.arange(rows) % SAMPLES,
            "id": [f"train-{row // SAMPLES:05d}" for row in range(rows)],
            "prompt": "How many are left? " * 10, "ground_truth": "12",
            "response": [" ".join(rng.choice(words, 170)) for _ in range(rows)],
            "accuracy": rng.integers(0, 2, rows).astype(float), "format": 1.0, "tokens": TOKENS, "truncated": False,
            "difficulty": rng.choice(["easy", "medium", "hard"], rows), "reward": rng.normal(size=rows),
            "reward_entropy_score": rng.normal(size=rows),
        }
    )  # fmt: skip
    names = ("entropies", "old_log_probs", "ref_log_probs", "advantages", "kl_coefs", "hwe_mask", "response_mask")
    tensors = {name: torch.rand(rows, TOKENS) for name in names}
    tensors |= {"responses": torch.randint(0, 99, (rows, TOKENS)), "attention_mask": torch.ones(rows, 2 * TOKENS)}
    store, before = RunStore(tmp_path / "large"), None
    store.write_run({"config": {"model": {"path": "nowhere"}, "rollout": {"prompts": GROUPS}}})
    first = store.write_rows("steps/000001/samples.parquet", samples)
    batch = store.write_file("steps/000001/batch.safetensors", lambda path: save_file(tensors, path))
    for step in range(STEPS + 1):
        artifacts = {name: linked(store, ref, step) for name, ref in (("samples", first), ("batch", batch)) if step}
        metrics = {f"metric/{number}": float(step) for number in range(METRICS)}
        before = commit(step, before, artifacts=artifacts, metrics=metrics)
        store.write_commit(before)
    return store


def linked(store: RunStore, ref: Ref, step: int) -> Ref:
    path = ref.path.replace("000001", f"{step:06d}")
    (store.directory / path).parent.mkdir(parents=True, exist_ok=True)
    if step > 1:
        os.link(store.directory / ref.path, store.directory / path)
    return ref.model_copy(update={"path": path})


@pytest.mark.slow
def test_a_run_of_200_steps_and_4096_samples_opens_in_two_seconds(large: RunStore) -> None:
    address: Queue[str] = Queue()
    threading.Thread(target=serve, args=([large], 0, address.put), daemon=True).start()
    with httpx.Client(base_url=address.get(timeout=60), timeout=60) as client:
        began = time.process_time()  # of the server too: it is this process

        def ask(**asked: str | int) -> dict[str, Any]:
            found = client.get("answer", params=asked).json()
            assert "error" not in found
            return dict(found)

        client.get("answer", params={"of": "runs"})
        curves = ask(of="curves", run="large")
        assert (len(curves["steps"]), len(curves["metrics"])) == (STEPS + 1, METRICS)
        where = {"run": "large", "step": STEPS, "table": "samples"}
        assert len(ask(of="samples", **where)["columns"]["id"]) == GROUPS * SAMPLES
        assert len(ask(of="group", number=3, **where)["samples"]) == SAMPLES
        assert time.process_time() - began < 2
