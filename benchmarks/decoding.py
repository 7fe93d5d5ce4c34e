"""What decoding gains from reading keys and values once: for the query heads of a group, for the rows of a prompt.

The transformers engine on one thread, 64 responses of 128 tokens, eight to a prompt, of unequal length, each way in
turn; the least of the CPU seconds, which a busy machine stretches too.

    python -m benchmarks.decoding [ROUNDS]
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import flows.environment  # noqa: F401 (first: the allocator's settings)

ROWS, GROUP, TOKENS = 64, 8, 128
PROMPTS = (25, 125, 250)
HEADS = {"4 query heads, 1 of keys": 1, "4 query heads, 4 of keys": 4}


def main() -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    import ares.engines.transformers as transformers_engine
    from ares.engines.decode_attention import NAME
    from ares.engines.engine import Request, SamplingSettings
    from ares.engines.transformers import TransformersEngine
    from benchmarks.models import random_qwen

    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    long_prompt = transformers_engine.LONG_PROMPT
    ways = {"copies": ("sdpa", sys.maxsize), "groups": (NAME, sys.maxsize), "groups and prompts": (NAME, long_prompt)}
    for name, heads in HEADS.items():
        with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng():
            torch.manual_seed(0)
            path = random_qwen(Path(folder) / "model")
            model = Qwen2ForCausalLM(Qwen2Config.from_pretrained(path, num_key_value_heads=heads))
            model.save_pretrained(path)
            engine = TransformersEngine(str(path), "float32", "cpu", set(), 0)
        engine.load_weights(0, dict(model.named_parameters()))
        config: Any = engine.model.config
        for length in PROMPTS:
            prompts = [[3 + (i + j) % 200 for j in range(length - i)] for i in range(ROWS // GROUP)]
            asked = [Request(prompts[row // GROUP], row) for row in range(ROWS)]
            seconds = dict.fromkeys(ways, float("inf"))
            for _ in range(rounds):
                for way, (attention, transformers_engine.LONG_PROMPT) in ways.items():
                    config._attn_implementation = attention
                    began = time.process_time()
                    engine.generate(asked, SamplingSettings(1.0, 1.0, TOKENS))
                    seconds[way] = min(seconds[way], time.process_time() - began)
            figures = ", ".join(f"{way} {spent:.2f} s" for way, spent in seconds.items())
            print(
                f"{name}, prompts of {length}: {figures}: {seconds['copies'] / seconds['groups and prompts']:.2f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
