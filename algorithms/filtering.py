"""Which rollouts are worth a gradient: informative groups and untruncated responses (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor


def informative_rows(
    index: Sequence[Any] | np.ndarray, accuracy: np.ndarray, low: float = 0.01, high: float = 0.99
) -> np.ndarray:
    """Rows of the groups with low < mean accuracy < high, both strict (DAPO, §3.2: neither all right nor all wrong).

    index, accuracy: [B]. Returns bool [B], equal within a group. The filter looks at accuracy, not at a shaped reward.
    Raises ValueError on a NaN or missing accuracy, or if low ≥ high.
    """
    if not low < high:
        raise ValueError(f"need low < high, got {low} and {high}")
    position: dict[Any, int] = {}
    labels = index.tolist() if isinstance(index, np.ndarray) else index
    group = np.fromiter(
        (position.setdefault(label, len(position)) for label in labels), dtype=np.int64, count=len(labels)
    )
    values = np.asarray(accuracy, dtype=np.float64)
    if values.shape != group.shape:
        raise ValueError(f"accuracy must be [{len(group)}], got {values.shape}")
    if np.isnan(values).any():
        raise ValueError(f"accuracy: row {int(np.isnan(values).argmax())} has no value; leave unscored rows out first")
    if len(group) == 0:
        return np.zeros(0, dtype=bool)
    mean = np.bincount(group, weights=values) / np.bincount(group)
    return ((mean > low) & (mean < high))[group]


def mask_truncated(response_mask: Tensor, truncated: Tensor | np.ndarray) -> Tensor:
    """Overlong filtering: no token of a truncated response takes part in the loss (DAPO, §3.4; DeepCoder).

    response_mask: [B, L]; truncated: bool [B]. Returns a new [B, L] mask. Whether the row still counts in its group's
    baseline is the advantage estimator's `row_mask`.
    """
    kept = ~torch.as_tensor(truncated, dtype=torch.bool, device=response_mask.device)
    if kept.shape != response_mask.shape[:1]:
        raise ValueError(f"truncated must be [{len(response_mask)}], got {tuple(kept.shape)}")
    return response_mask * kept[:, None].to(response_mask.dtype)
