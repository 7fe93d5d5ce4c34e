"""One engine asked for all responses at once, or shard after shard: every shard ends in a tail of few long responses.

512 responses of geometric lengths (one token in 40 ends the response) from vLLM, in calls of 32 to 512. A shard of
`rollout.shard_prompts` prompts is one call of that many times `rollout.n`.

    python -m benchmarks.shard_size [ROUNDS]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import flows.environment  # isort: skip  # noqa: F401 (first: libraries read their settings at import)

from ares.config.rollout import VllmConfig
from ares.engines.engine import Request, SamplingSettings
from ares.engines.vllm import VllmEngine
from benchmarks.models import random_qwen

RESPONSES, TOKENS, CALLS = 512, 512, (32, 64, 128, 256, 512)


def seconds(engine: VllmEngine, size: int) -> tuple[float, int]:
    """Time and tokens of all responses, `size` a call."""
    settings = SamplingSettings(1.0, 1.0, TOKENS)
    requests = [Request(list(range(3, 27)), seed) for seed in range(RESPONSES)]
    tokens = 0
    started = time.perf_counter()
    for first in range(0, RESPONSES, size):
        for finished in engine.stream(requests[first : first + size], settings):
            tokens += sum(len(completion.token_ids) for _, completion in finished)
    return time.perf_counter() - started, tokens


def main() -> None:
    import torch
    from transformers import AutoModelForCausalLM

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model = random_qwen(Path(folder) / "model", end_logit=2.05)
        engine = VllmEngine(str(model), "float32", {1}, TOKENS + 32, VllmConfig(), colocated=False)
        policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        engine.load_weights(0, {name: weight.detach() for name, weight in policy.named_parameters()})
        timings = {size: [seconds(engine, size) for _ in range(rounds)] for size in CALLS}
    for size, timed in timings.items():
        took, tokens = statistics.median(took for took, _ in timed), timed[0][1]
        print(f"{size:4d} responses a call: {took:6.2f} s, {tokens / took:6.0f} tokens/s")


if __name__ == "__main__":
    main()
