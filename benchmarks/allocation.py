"""What the settings of the C library's allocator in flows/environment.py gain a learner and an engine on a CPU.

An update and a rollout in processes with and without them, in turn: seconds, and page faults.

    python -m benchmarks.allocation [ROUNDS]
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS, TOKENS, REPEATS = 128, 128, 3
WAYS = ("settings", "none")


def measured(work: Callable[[], Any]) -> list[tuple[float, float]]:
    """Seconds and page faults of each repeat after the first."""
    updates = []
    for _ in range(REPEATS + 1):
        started, faults = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        work()
        now = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        updates.append((time.perf_counter() - started, float(now - faults)))
    return updates[1:]


def update(model: str) -> None:
    from ares.config.profiles import load
    from ares.learner.learner import Learner
    from benchmarks.packing import batch

    rows = batch([TOKENS] * ROWS)
    settings = [f"model.path={model}", "algorithm.kl.placement=none", "rollout.prompts=16"]
    learner = Learner(load("tiny-math", [*settings, "learner.global_batch_prompts=16"]))
    print(json.dumps(measured(lambda: learner.update(rows))))


def rollout(model: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from ares.engines.engine import Request, SamplingSettings
    from ares.engines.transformers import TransformersEngine

    torch.set_num_threads(1)
    engine = TransformersEngine(model, "float32", "cpu", {1}, 0)
    weights = dict(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).named_parameters())
    engine.load_weights(0, {name: parameter.detach() for name, parameter in weights.items()})
    requests = [Request(list(range(3, 23)), seed) for seed in range(ROWS)]
    settings = SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=TOKENS)
    print(json.dumps(measured(lambda: list(engine.stream(requests, settings)))))


def main() -> None:
    if sys.argv[1:2] in (["update"], ["rollout"]):
        {"update": update, "rollout": rollout}[sys.argv[1]](sys.argv[2])
        return
    from benchmarks.models import random_qwen
    from flows.environment import DEFAULTS

    plain = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    plain["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        model = str(random_qwen(Path(folder) / "model", end_logit=-30.0))
        for work in ("update", "rollout"):
            timed: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
                for way in WAYS:
                    environment = plain | ({"GLIBC_TUNABLES": DEFAULTS["GLIBC_TUNABLES"]} if way != "none" else {})
                    command = [sys.executable, "-m", "benchmarks.allocation", work, model]
                    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                    timed[way] += json.loads(ended.stdout.splitlines()[-1])
            print(f"{work} of {ROWS} rows of {TOKENS} tokens, one thread")
            medians = {way: [statistics.median(column) for column in zip(*rows)] for way, rows in timed.items()}  # noqa: B905
            for way, (seconds, faults) in medians.items():
                ratio = medians["none"][0] / seconds
                print(f"  {way:10s} {seconds:6.2f} s  {faults:9.0f} page faults  {ratio:5.2f}x", flush=True)


if __name__ == "__main__":
    main()
