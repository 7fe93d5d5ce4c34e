"""The order in which problems are drawn: a walk over a new permutation each epoch, and where it has come to.

Covered: shuffled orders, sets that grow, sets with weights, easy or medium problems first (`rank`). Not covered: a
curriculum's levels (algorithms/curriculum.py), and which problems are skipped (algorithms/difficulty.py).
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms.keys import derive_seed
from ares.config import Order
from ares.data import DataError

Mixture = tuple[tuple[int, float], ...]
"""Size and weight of each set of a train set, in the order of their rows."""


@dataclass
class Cursor:
    """The position in the train set: an endless walk over a new permutation each epoch.

    Sets with weights are walked through one by one. Each draw adds its share of the weights to what a set is owed, and
    takes one from the set that is owed most:

        weights 2 : 1   owed  ⅔ ⅓ → A   ⅓ ⅔ → B   1 0 → A   …   shares that are right to within a draw
    """

    seed: int
    size: int
    epoch: int = 0
    position: int = 0
    sizes: list[list[int]] = field(default_factory=list)
    """Of an epoch in which the set has grown: from which position on it had how many rows, [[0, 40], [12, 60]]."""
    drawn: list[int] = field(default_factory=list)
    """Of each set with a weight, how many rows were drawn."""
    owed: list[float] = field(default_factory=list)
    """And how many it has been owed since."""
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
        walk = self._walk() if mixture is None else self._walk_of(mixture)
        while len(taken) < count:
            row = next(walk)
            if not is_skipped(row):
                taken.append(row)
                passed_over = 0
            elif (passed_over := passed_over + 1) % (2 * self.size) == 0:
                weights = [1.0] * self.size if mixture is None else [w for size, w in mixture for _ in range(size)]
                if all(is_skipped(row) for row, weight in enumerate(weights) if weight):
                    raise DataError("Every problem that may be drawn is in the skip set: nothing is left to train on")
        return taken

    def grow(self, size: int) -> None:
        """Take in rows that were added; they are drawn among those that this epoch has left."""
        self.sizes = [*(self.sizes or [[0, self.size]]), [self.position, size]]
        self.size = size

    def _walk(self) -> Iterator[int]:
        """Row numbers epoch by epoch."""
        while True:
            order = self._order()
            while self.position < self.size:
                self.position += 1
                yield int(order[self.position - 1])
            self.epoch, self.position, self.sizes = self.epoch + 1, 0, []

    def _order(self) -> np.ndarray:
        """This epoch's order of row numbers."""
        (_, size), *grown = self.sizes or [[0, self.size]]
        order = _shuffled(self.seed, size, self.epoch, tuple(map(tuple, grown)))
        return order if self.ranks is None else order[np.argsort(np.array(self.ranks)[order], kind="stable")]

    def _walk_of(self, mixture: Mixture) -> Iterator[int]:
        """Row numbers, each of the set that is owed most."""
        whole = sum(weight for _, weight in mixture)
        firsts = np.cumsum([0, *(size for size, _ in mixture)]).tolist()
        weighed = [number for number, (_, weight) in enumerate(mixture) if weight]
        self.drawn, self.owed = self.drawn or [0] * len(mixture), self.owed or [0.0] * len(mixture)
        while True:
            self.owed = [owed + weight / whole for owed, (_, weight) in zip(self.owed, mixture, strict=True)]
            chosen = max(weighed, key=self.owed.__getitem__)
            epoch, place = divmod(self.drawn[chosen], mixture[chosen][0])
            self.owed[chosen] -= 1
            self.drawn[chosen] += 1
            order = _shuffled(derive_seed(self.seed, "set", chosen), mixture[chosen][0], epoch)
            yield firsts[chosen] + int(order[place])

    def follow(self, before: "Cursor") -> None:
        """Take over the ranks of an earlier commit."""
        self.ranks, self.is_settled = before.ranks, True

    def state_dict(self) -> dict[str, Any]:
        """Where the walks are, and ranks that no commit holds yet; seed and size come from configuration and data."""
        written: dict[str, Any] = {} if self.ranks is None or self.is_settled else {"ranks": self.ranks}
        optional = {"sizes": self.sizes, "drawn": self.drawn, "owed": self.owed}
        written |= {name: values for name, values in optional.items() if values}
        return {"epoch": self.epoch, "position": self.position} | written

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position."""
        self.epoch, self.position = state["epoch"], state["position"]
        self.sizes, self.drawn, self.owed = (list(state.get(name, [])) for name in ("sizes", "drawn", "owed"))
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


@functools.lru_cache(maxsize=16)
def _shuffled(seed: int, size: int, epoch: int, grown: tuple[tuple[int, ...], ...] = ()) -> np.ndarray:
    """An epoch's order of row numbers. grown: from which position on the set had how many rows. Cached, since every
    step takes a few of them."""
    order = np.random.default_rng(derive_seed(seed, "order", epoch)).permutation(size)
    for position, more in grown:
        left = np.concatenate([order[position:], np.arange(len(order), more)])
        generator = np.random.default_rng(derive_seed(seed, "grown", epoch, more))
        order = np.concatenate([order[:position], generator.permutation(left)])
    return order
