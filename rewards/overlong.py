"""Soft overlong punishment (DAPO, arXiv 2503.14476, eq. 13): a ramp before the length limit, not a cliff at it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def soft_overlong(lengths: ArrayLike, max_length: int, cache: int) -> np.ndarray:
    """Reward term in [−1, 0] by response length: 0 up to max_length − cache, then linear, −1 above max_length.

    lengths: [B] tokens. cache: tokens over which the penalty grows; 0 makes it a step. Returns float64 [B].
    Raises ValueError unless 0 ≤ cache ≤ max_length.
    """
    if not 0 <= cache <= max_length:
        raise ValueError(f"need 0 ≤ cache ≤ max_length, got cache {cache} and max_length {max_length}")
    lengths = np.asarray(lengths, dtype=np.float64)
    ramp = (max_length - cache - lengths) / max(cache, 1)
    return np.where(lengths > max_length, -1.0, np.minimum(ramp, 0.0))
