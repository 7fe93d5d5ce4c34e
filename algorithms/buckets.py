"""Difficulty buckets (ARES, arXiv 2510.08457): names, codes, values. algorithms/difficulty.py assigns them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

Bucket = Literal["easy", "medium", "hard"]
BUCKETS: tuple[str, ...] = get_args(Bucket)


def bucket_index(labels: Sequence[str] | np.ndarray) -> np.ndarray:
    """Difficulty labels as indices into BUCKETS: [B] → int64 [B]. Raises ValueError naming an unknown label."""
    array = np.asarray(labels, dtype=object)
    codes = np.full(len(array), -1, dtype=np.int64)
    for code, name in enumerate(BUCKETS):
        codes[array == name] = code
    if (codes < 0).any():
        row = int((codes < 0).argmax())
        raise ValueError(f"row {row}: unknown difficulty {array[row]!r} (one of {', '.join(BUCKETS)})")
    return codes


def per_bucket(value: float | Mapping[Any, float]) -> dict[str, float]:
    """A value for each bucket, from one for all or one for each (a checked setting, algorithms.settings.PerBucket)."""
    return {name: float(value[name] if isinstance(value, Mapping) else value) for name in BUCKETS}


def of_rows(values: Mapping[str, float], labels: Sequence[str] | np.ndarray) -> np.ndarray:
    """The value of each row's bucket: labels [B] → float64 [B]. Raises ValueError naming an unknown label."""
    return np.array([values[name] for name in BUCKETS])[bucket_index(labels)]
