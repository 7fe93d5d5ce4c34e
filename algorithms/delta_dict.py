"""Per-prompt state, split into what was known before a step and what the step adds.

Only the additions are written with a step, so commits do not grow with the number of prompts. Not covered: the state
itself (algorithms/difficulty.py, rewards/pass_rates.py).
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class DeltaDict(MutableMapping[K, V], Generic[K, V]):
    """A dictionary that only grows. `recent` holds what was set since `settle`; `known`, the rest, may be shared."""

    def __init__(self) -> None:
        self.known: dict[K, V] = {}
        self.recent: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        return self.recent[key] if key in self.recent else self.known[key]

    def __setitem__(self, key: K, value: V) -> None:
        self.recent[key] = value

    def __delitem__(self, key: K) -> None:
        raise TypeError("entries of a DeltaDict cannot be deleted")

    def __contains__(self, key: object) -> bool:
        return key in self.recent or key in self.known

    def __iter__(self) -> Iterator[K]:
        yield from self.known
        yield from (key for key in self.recent if key not in self.known)

    def __len__(self) -> int:
        return len(self.known) + sum(key not in self.known for key in self.recent)

    def __repr__(self) -> str:
        return repr(dict(self))

    def follow(self, before: DeltaDict[K, V]) -> None:
        """Share, not copy, the known entries of another, which must have no recent ones."""
        self.known = before.known

    def settle(self) -> None:
        """Move recent entries to the known ones, also for those that share them."""
        self.known.update(self.recent)
        self.recent = {}
