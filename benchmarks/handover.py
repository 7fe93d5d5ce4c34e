"""Time to hand new weights from the learner to the engine, and the peak memory of each.

A real learner and a real engine in Ray actors take turns: sample, update, hand over; the hand-over is what the engine
waits for before it samples from the new policy. Peak memory is the kernel's high-water mark of each actor (VmHWM), Ray
and its object store included.

    python -m benchmarks.handover [HIDDEN,LAYERS …]
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import flows.environment  # isort: skip  # noqa: F401 (first: libraries read their settings at import)

import psutil

from ares.config.profiles import load
from ares.engines.engine import Request, SamplingSettings
from ares.store.store import RunStore
from ares.workers.cluster import Cluster
from benchmarks.models import random_qwen
from benchmarks.packing import batch

ROWS, TOKENS, ROUNDS = 16, 64, 5
WAYS = {
    "transformers, one rank": ["rollout.engine=transformers"],
    "vLLM, one rank": ["rollout.engine=vllm"],
    "vLLM, two ranks, whole weights": ["rollout.engine=vllm", "learner.ranks=2"],
    "vLLM, two ranks, sharded": ["rollout.engine=vllm", "learner.ranks=2", "learner.sharded=true"],
}


def peak(role: str) -> float:
    """GiB of the largest actor of a role, at its largest."""
    peaks = []
    for process in psutil.Process().children(recursive=True):
        if f"ray::{role}" in " ".join(process.cmdline()):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks.append(int(status.split("VmHWM:")[1].split()[0]) / 2**20)
    return max(peaks)


async def measured(model: str, settings: list[str]) -> tuple[float, float, float]:
    """Median seconds of a hand-over, and the peaks of learner and engine in GiB."""
    config = load("tiny-math", [f"model.path={model}", "algorithm.kl.placement=none", "rollout.prompts=2",
                                "learner.global_batch_prompts=2", f"rollout.max_response_length={TOKENS}",
                                "algorithm.aepo.enabled=false", *settings])  # fmt: skip
    requests = [Request(list(range(3, 23)), seed) for seed in range(ROWS)]
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(config, RunStore(Path(folder) / "run"))
        ref = cluster.store.write_folder("batch", batch([TOKENS] * ROWS).save)
        try:
            for version in range(ROUNDS + 1):
                await cluster.generate(version, requests, SamplingSettings(1.0, 1.0, TOKENS))
                cluster.announce_update(version + 1, ref, None)
                await cluster.update(version + 1)
                started = time.perf_counter()
                await cluster._engine_at(version + 1)
                seconds.append(time.perf_counter() - started)
            return statistics.median(seconds[1:]), peak("LearnerActor"), peak("EngineActor")
        finally:
            cluster.disconnect()


def main() -> None:
    for shape in sys.argv[1:] or ["256,4", "768,8"]:
        hidden, layers = map(int, shape.split(","))
        with tempfile.TemporaryDirectory() as folder:
            model = random_qwen(Path(folder) / "model", hidden, layers)
            weights = sum(file.stat().st_size for file in model.glob("*.safetensors")) / 2**20
            print(f"hidden size {hidden}, {layers} layers: {weights:.0f} MiB of weights")
            for name, settings in WAYS.items():
                seconds, learner, engine = asyncio.run(measured(str(model), settings))
                print(f"  {name:32s} {1e3 * seconds:7.0f} ms  learner {learner:5.2f} GiB  engine {engine:5.2f} GiB",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
