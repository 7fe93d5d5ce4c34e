"""CPU seconds in which `ares browse` answers what its page asks for first, of a run of 200 steps × 4,096 samples.

The goal is two seconds to the open page; a browser adds to that.

    python -m benchmarks.browse
"""

import os
import tempfile
import threading
import time
from pathlib import Path
from queue import Queue

import httpx
import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file

from ares.browse import serve
from ares.store import Ref, RunStore
from ares.store.commits import Commit

STEPS, GROUPS, SAMPLES, TOKENS = 200, 256, 16, 64
METRICS = 120


def large_run(folder: Path) -> RunStore:
    """Responses of a thousand characters; the steps have one content."""
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
    store, before = RunStore(folder / "large"), None
    store.write_run({"config": {"model": {"path": "nowhere"}, "rollout": {"prompts": GROUPS}}})
    first = store.write_rows("steps/000001/samples.parquet", samples)
    batch = store.write_file("steps/000001/batch.safetensors", lambda path: save_file(tensors, path))
    for step in range(STEPS + 1):
        artifacts = {name: linked(store, ref, step) for name, ref in (("samples", first), ("batch", batch)) if step}
        metrics = {f"metric/{number}": float(step) for number in range(METRICS)}
        parent = None if before is None else before.digest()
        before = Commit(
            step=step, parent=parent, artifacts=artifacts, state={}, metrics=metrics, timings={}, timestamp=1
        )
        store.write_commit(before)
    return store


def linked(store: RunStore, ref: Ref, step: int) -> Ref:
    """The same file as an artifact of a step."""
    path = ref.path.replace("000001", f"{step:06d}")
    (store.directory / path).parent.mkdir(parents=True, exist_ok=True)
    if step > 1:
        os.link(store.directory / ref.path, store.directory / path)
    return ref.model_copy(update={"path": path})


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, address = large_run(Path(folder)), Queue[str]()
        threading.Thread(target=serve, args=([store], 0, address.put), daemon=True).start()
        where: dict[str, str | int] = {"run": "large", "step": STEPS, "table": "samples"}
        first: list[dict[str, str | int]] = [
            {"of": "runs"}, {"of": "curves", "run": "large"}, {"of": "samples", **where},
            {"of": "group", "number": 3, **where},
        ]  # fmt: skip
        with httpx.Client(base_url=address.get(timeout=60), timeout=60) as client:
            for asked in first:
                began = time.process_time()  # of the server too: it is this process
                client.get("answer", params=asked).raise_for_status()
                print(f"{asked['of']:8s} {time.process_time() - began:.2f} s")


if __name__ == "__main__":
    main()
