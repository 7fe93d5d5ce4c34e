"""Tiny models and tasks: what `ares` can train within minutes on a CPU, for trying it and for its tests.

Covers: generating a task, warm-starting a model on it, the shipped results. Does not cover: the training loop.
"""

from pathlib import Path

CHECKPOINTS = Path(__file__).parent / "checkpoints"
"""The shipped warm starts. `math` holds model, tokenizer, train.jsonl and heldout.jsonl of tiny-math."""
