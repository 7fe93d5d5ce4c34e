"""What the state of controllers and trackers has in common: a check of what is loaded, and per-prompt state in deltas.

Of per-prompt state only a step's additions are written with it, so commits do not grow with the number of prompts. Not
covered: the state itself (algorithms/difficulty.py, algorithms/kl_controllers.py, rewards/pass_rates.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeVar

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


def check_state(state: Mapping[str, Any] | None, like: Mapping[str, Any], what: str) -> None:
    """Raise ValueError unless a stored state has the keys of `like` and only finite numbers, at any depth.

    Parts of a state may know more buckets than `like` does, not fewer.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"{what} is missing")
    if state.keys() != like.keys():
        raise ValueError(f"{what} must have the keys {sorted(like)}, got {sorted(state)}")
    for name, part in like.items():
        if isinstance(part, Mapping) and (missing := part.keys() - state[name].keys()):
            raise ValueError(f"{what}: {name} lacks {', '.join(sorted(missing))}")
        _check_finite(state[name], f"{what}: {name}")


def _check_finite(value: Any, what: str) -> None:
    for name, part in value.items() if isinstance(value, Mapping) else ():
        _check_finite(part, f"{what}[{name!r}]")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} is {value}, which is not finite")
