"""Tiny models and tasks: what `ares` can train within minutes on a CPU, for trying it and for its tests.

Covers: generating problems and worked examples (problems.py and the modules of the tasks), warm-starting a model on
them (learning.py, tasks.py), the shipped results. Does not cover: the training loop.
"""

from pathlib import Path

CHECKPOINTS = Path(__file__).parent / "checkpoints"
"""The shipped warm starts, a folder each: model, tokenizer, the problems to train and to measure on (those of
`code-hard` and `code-feedback` are `code`'s), and `warmstart.json`, what was measured when they were made."""
