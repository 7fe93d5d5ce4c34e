"""The order in which problems are drawn: a walk over a new permutation each epoch, and where it has come to.

Covered: shuffled orders, sets with weights (`mixed`), easy or medium problems first (`rank`). Not covered: a
curriculum's levels (algorithms/curriculum.py), and which problems are skipped (algorithms/difficulty.py).
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.keys import derive_seed
from ares.config import Order
from ares.data import DataError

Mixture = tuple[tuple[int, float], ...]
"""Size and weight of each set of a train set, in the order of their rows."""


@dataclass
class Cursor:
    """The position in the train set: an endless walk over a new permutation each epoch."""

    seed: int
    size: int
    epoch: int = 0
    position: int = 0
    ranks: list[int] | None = None
    """Of each row: an epoch draws low ones first, equal ones in random order. None: all are equal."""
    is_settled: bool = False
    """Whether an earlier commit holds the ranks, so that they are not written again."""

    def take(
        self, count: int, is_skipped: Callable[[int], bool] = lambda row: False, mixture: Mixture | None = None
    ) -> list[int]:
        """The next `count` row numbers that are not skipped. Raises DataError when all are.

        mixture: the sizes and weights of the sets of which the rows are, if they have weights.
        """
        taken: list[int] = []
        passed_over = 0
        order = self._order(mixture)
        while len(taken) < count:
            if self.position >= len(order):  # a fork's weights may have changed the length
                self.epoch, self.position = self.epoch + 1, 0
                order = self._order(mixture)
                continue
            row = int(order[self.position])
            self.position += 1
            if not is_skipped(row):
                taken.append(row)
                passed_over = 0
            elif (passed_over := passed_over + 1) % (2 * self.size) == 0 and all(map(is_skipped, range(self.size))):
                raise DataError("Every problem that may be drawn is in the skip set: nothing is left to train on")
        return taken

    def _order(self, mixture: Mixture | None) -> np.ndarray:
        """This epoch's order of row numbers."""
        if mixture is not None:
            return mixed(self.seed, self.epoch, mixture)
        order = _shuffled(self.seed, self.size, self.epoch)
        return order if self.ranks is None else order[np.argsort(np.array(self.ranks)[order], kind="stable")]

    def follow(self, before: "Cursor") -> None:
        """Take over the ranks of an earlier commit."""
        self.ranks, self.is_settled = before.ranks, True

    def state_dict(self) -> dict[str, Any]:
        """Epoch, position, and ranks that no commit holds yet; seed and size come from configuration and data."""
        written = {} if self.ranks is None or self.is_settled else {"ranks": self.ranks}
        return {"epoch": self.epoch, "position": self.position} | written

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position."""
        self.epoch, self.position = state["epoch"], state["position"]
        if "ranks" in state:
            self.ranks, self.is_settled = state["ranks"], False


def rank(pass_rates: np.ndarray, order: Order) -> list[int] | None:
    """The rank of each row [rows] by its pass rate in [0, 1], NaN where it was not measured; None for `shuffled`.

    easy_first: a high rate first; medium_first: one near ½. Rows that were not measured are last.
    """
    if order == "shuffled":
        return None
    distance = 1 - pass_rates if order == "easy_first" else np.abs(pass_rates - 0.5)
    return np.unique(np.nan_to_num(distance, nan=2.0), return_inverse=True)[1].tolist()


def _permutation(seed: int, size: int, epoch: int) -> np.ndarray:
    """An epoch's order of row numbers."""
    return np.random.default_rng(derive_seed(seed, "order", epoch)).permutation(size)


_shuffled = functools.lru_cache(maxsize=2)(_permutation)
"""Cached, since every step takes a few of them."""


@functools.lru_cache(maxsize=2)
def mixed(seed: int, epoch: int, mixture: Mixture) -> np.ndarray:
    """An epoch's order of row numbers of sets with weights: each set's share of it, shuffled among each other.

    A set is walked through on its own, in a new permutation each time, and goes on in the next epoch where it stopped:

        weights 3 : 1   sizes 4, 4    epoch 0: c a B d b a′      epoch 1: …   (a′: the first set has begun anew)
    """
    rows, whole = sum(size for size, _ in mixture), sum(weight for _, weight in mixture)
    parts, first = [], 0
    for number, (size, weight) in enumerate(mixture):
        begin, end = (round(rows * weight / whole * (epoch + more)) for more in (0, 1))
        walks = [
            _permutation(derive_seed(seed, "set", number), size, walk) for walk in range(begin // size, -(-end // size))
        ]
        parts.append(first + np.concatenate(walks)[begin % size :][: end - begin] if walks else np.empty(0, int))
        first += size
    return np.random.default_rng(derive_seed(seed, "mixture", epoch)).permutation(np.concatenate(parts))
