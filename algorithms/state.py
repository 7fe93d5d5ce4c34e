"""What the state of controllers and trackers has in common: a check of what is loaded, and per-prompt state in deltas.

Of per-prompt state only a step's additions are written with it, so commits do not grow with the number of prompts. Not
covered: the state itself (algorithms/difficulty.py, algorithms/kl_controllers.py, rewards/pass_rates.py).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class DeltaDict(ChainMap[K, V]):
    """A dictionary that only grows. `recent` holds what was set since `settle`; the rest may be shared."""

    def __init__(self) -> None:
        super().__init__({}, {})

    @property
    def recent(self) -> MutableMapping[K, V]:
        """What was set since `settle`."""
        return self.maps[0]

    @recent.setter
    def recent(self, entries: dict[K, V]) -> None:
        self.maps[0] = entries

    def follow(self, before: DeltaDict[K, V]) -> None:
        """Share, not copy, the entries of another, which must have no recent ones."""
        self.maps[1] = before.maps[1]

    def settle(self) -> None:
        """Let recent entries join the others, also for those that share them."""
        self.maps[1].update(self.recent)
        self.recent = {}


def check_state(state: Mapping[str, Any] | None, like: Mapping[str, Any], what: str) -> None:
    """Raise ValueError unless a stored state has the keys of `like`: another kind of controller has others."""
    if not isinstance(state, Mapping):
        raise ValueError(f"{what} is missing")
    if state.keys() != like.keys():
        raise ValueError(f"{what} must have the keys {sorted(like)}, got {sorted(state)}")
