"""What the transformers engine could gain by refilling the slots of finished responses: at most what full batches gain.

512 responses of geometric lengths (one token in 64 ends the response), 64 to 512 a call, and batches of 64 to 512
responses of 128 tokens, of which none ends early: they have as many tokens behind them, on average. Tokens a CPU second
of one thread, the best of the rounds.

    python -m benchmarks.refill [ROUNDS]
"""

import sys
import tempfile
import time
from pathlib import Path

import flows.environment  # isort: skip  # noqa: F401 (first: the allocator's settings)

from ares.engines.engine import Request, SamplingSettings
from ares.engines.transformers import TransformersEngine
from benchmarks.models import random_qwen

RESPONSES, GROUP, PROMPT, SIZES, END = 512, 8, 25, (64, 128, 256, 512), 1


def loaded(end_logit: float) -> TransformersEngine:
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        model = str(random_qwen(Path(folder) / "model", end_logit=end_logit))
        engine = TransformersEngine(model, "float32", "cpu", {END}, 0)
        engine.load_weights(0, dict(AutoModelForCausalLM.from_pretrained(model).named_parameters()))
    return engine


def rate(engine: TransformersEngine, responses: int, size: int, tokens: int) -> float:
    """Tokens a CPU second, `size` responses a call."""
    prompts = [[3 + (number + place) % 200 for place in range(PROMPT)] for number in range(responses // GROUP)]
    requests = [Request(prompts[seed // GROUP], seed) for seed in range(responses)]
    began, sampled = time.process_time(), 0
    for first in range(0, responses, size):
        answers = engine.generate(requests[first : first + size], SamplingSettings(1.0, 1.0, tokens))
        sampled += sum(len(answer.token_ids) for answer in answers)
    return sampled / (time.process_time() - began)


def main() -> None:
    import torch

    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    skewed, full = loaded(1.57), loaded(-30.0)
    for size in SIZES:
        ending = max(rate(skewed, RESPONSES, size, 512) for _ in range(rounds))
        staying = max(rate(full, size, size, 128) for _ in range(rounds))
        print(f"{size:4d} responses: {ending:6.0f} tokens/cpu-s as they end, {staying:6.0f} if all stay", flush=True)


if __name__ == "__main__":
    main()
