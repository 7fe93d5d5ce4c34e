"""The difficulty buckets of prompts, by name (ARES, arXiv 2510.08457). What puts a prompt into one: difficulty.py."""

from typing import Literal, get_args

Bucket = Literal["easy", "medium", "hard"]
BUCKETS: tuple[str, ...] = get_args(Bucket)
