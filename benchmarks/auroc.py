"""The area under the ROC curve, with intervals over responses: how well a score finds tokens of some kind.

Covered: AUROC with ties and weights, its bootstrap where tokens come in responses. Not covered: where scores and truth
come from (benchmarks/entropy_decisions.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from algorithms.keys import derive_seed

DRAWS = 2000
CHUNK = 100
"""Draws per chunk: [CHUNK, tokens] numbers."""


@dataclass(frozen=True)
class Auroc:
    """A score's area, how far that of a first score lies above it, and their 95 % intervals over responses."""

    value: float
    low: float
    high: float
    behind: float
    """Area of the first score less this one's, draw by draw the same responses; 0 of the first itself."""
    behind_low: float
    behind_high: float


def auroc(score: np.ndarray, truth: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """P(score of a true one > of a false one) + ½ P(equal) (Hanley & McNeil 1982).

    score [N], truth bool [N], weights [..., N] (how often each counts; once without). Returns [...]: NaN where the
    weights leave no true or no false one. Raises ValueError if a score is NaN.
    """
    if np.isnan(score).any():
        raise ValueError("a score is NaN")
    counted = np.ones(len(score)) if weights is None else weights
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.diff(score[order], prepend=-np.inf))
    true, false = (np.add.reduceat((counted * of)[..., order], starts, axis=-1) for of in (truth, ~truth))
    below = np.cumsum(false, axis=-1) - false / 2
    with np.errstate(invalid="ignore"):
        return np.asarray((true * below).sum(-1) / (true.sum(-1) * false.sum(-1)))


def aurocs(
    scores: Mapping[str, np.ndarray], truth: np.ndarray, response: np.ndarray, key: tuple[str | int, ...]
) -> dict[str, Auroc]:
    """The area of every score [N] for truth [N], with percentile intervals over draws of whole responses.

    response: the number of each token's response [N]; key: of the draws. Raises ValueError where nothing or everything
    is true.
    """
    if truth.all() or not truth.any():
        raise ValueError("an area needs both true and false ones")
    number, of_token = np.unique(response, return_inverse=True)
    rng = np.random.default_rng(derive_seed("auroc", *key))
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in scores}
    for _ in range(0, DRAWS, CHUNK):
        weights = rng.multinomial(len(number), np.full(len(number), 1 / len(number)), size=CHUNK)[:, of_token]
        for name, score in scores.items():
            drawn[name].append(auroc(score, truth, weights))
    draws = {name: np.concatenate(parts) for name, parts in drawn.items()}
    first = next(iter(scores))
    values = {name: float(auroc(score, truth)) for name, score in scores.items()}
    return {
        name: Auroc(values[name], *_interval(draws[name]), values[first] - values[name],
                    *_interval(draws[first] - draws[name]))
        for name in scores
    }  # fmt: skip


def _interval(draws: np.ndarray) -> tuple[float, float]:
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return float(low), float(high)
