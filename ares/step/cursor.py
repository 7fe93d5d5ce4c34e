"""The order in which problems are drawn: a walk over a new permutation each epoch, and where it has come to.

Covered: shuffled orders, sets with weights, easy or medium problems first (`rank`). Not covered: a curriculum's levels
(algorithms/curriculum.py), and which problems are skipped (algorithms/difficulty.py).
"""

import functools
from collections.abc import Callable
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
        while len(taken) < count:
            row = self._next() if mixture is None else self._next_of(mixture)
            if not is_skipped(row):
                taken.append(row)
                passed_over = 0
            elif (passed_over := passed_over + 1) % (2 * self.size) == 0:
                weights = [1.0] * self.size if mixture is None else [w for size, w in mixture for _ in range(size)]
                if all(is_skipped(row) for row, weight in enumerate(weights) if weight):
                    raise DataError("Every problem that may be drawn is in the skip set: nothing is left to train on")
        return taken

    def _next(self) -> int:
        """The next row number of this epoch's order."""
        if self.position >= self.size:
            self.epoch, self.position = self.epoch + 1, 0
        order = _shuffled(self.seed, self.size, self.epoch)
        if self.ranks is not None:
            order = order[np.argsort(np.array(self.ranks)[order], kind="stable")]
        self.position += 1
        return int(order[self.position - 1])

    def _next_of(self, mixture: Mixture) -> int:
        """The next row number of the set that is owed most."""
        whole = sum(weight for _, weight in mixture)
        self.drawn, self.owed = self.drawn or [0] * len(mixture), self.owed or [0.0] * len(mixture)
        self.owed = [owed + weight / whole for owed, (_, weight) in zip(self.owed, mixture, strict=True)]
        chosen = max((number for number, (_, weight) in enumerate(mixture) if weight), key=self.owed.__getitem__)
        size = mixture[chosen][0]
        walk, place = divmod(self.drawn[chosen], size)
        self.owed[chosen] -= 1
        self.drawn[chosen] += 1
        row = _shuffled(derive_seed(self.seed, "set", chosen), size, walk)[place]
        return int(row) + sum(size for size, _ in mixture[:chosen])

    def follow(self, before: "Cursor") -> None:
        """Take over the ranks of an earlier commit."""
        self.ranks, self.is_settled = before.ranks, True

    def state_dict(self) -> dict[str, Any]:
        """Where the walks are, and ranks that no commit holds yet; seed and size come from configuration and data."""
        written = {} if self.ranks is None or self.is_settled else {"ranks": self.ranks}
        of_sets = {"drawn": self.drawn, "owed": self.owed} if self.drawn else {}
        return {"epoch": self.epoch, "position": self.position} | of_sets | written

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position."""
        self.epoch, self.position = state["epoch"], state["position"]
        self.drawn, self.owed = list(state.get("drawn", [])), list(state.get("owed", []))
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
def _shuffled(seed: int, size: int, epoch: int) -> np.ndarray:
    """An epoch's order of row numbers. Cached, since every step takes a few of them."""
    return np.random.default_rng(derive_seed(seed, "order", epoch)).permutation(size)
