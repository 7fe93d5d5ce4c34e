"""Names of the difficulty buckets (ARES, arXiv 2510.08457); algorithms/difficulty.py assigns prompts to them."""

from typing import Literal, get_args

Bucket = Literal["easy", "medium", "hard"]
BUCKETS: tuple[str, ...] = get_args(Bucket)
