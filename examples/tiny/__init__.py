"""Tiny models and tasks: what `ares` can train within minutes on a CPU, for trying it and for its tests.

Covers: generating a task, warm-starting a model on it, the shipped results. Does not cover: the training loop.
"""

from pathlib import Path

CHECKPOINTS = Path(__file__).parent / "checkpoints"
"""The shipped warm starts, a folder each: model, tokenizer, train.jsonl and heldout.jsonl; `code-hard` has no data
of its own, its problems are those of `code`."""
