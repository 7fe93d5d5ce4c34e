"""Progress within a step, for displays.

Not covered: steps, which are counted by commits; the display (ares/reports/terminal.py).
"""

from collections.abc import Callable


class Progress:
    """Counts by part: responses sampled, optimiser steps done. `watch` is called on each change."""

    def __init__(self) -> None:
        self.watch: Callable[[str, int, int], None] = lambda part, done, total: None
        """Takes a part, its count so far, and its total."""
        self._parts: dict[str, tuple[int, int]] = {}

    def begin(self, part: str, total: int) -> None:
        """Begin a part, or begin it anew, as when more is drawn to fill a batch."""
        self._parts[part] = (0, total)
        self.watch(part, 0, total)

    def reach(self, part: str, done: int) -> None:
        """Raise the count of a part, if it has begun."""
        if part in self._parts:
            before, total = self._parts[part]
            self._parts[part] = (min(max(before, done), total), total)
            self.watch(part, *self._parts[part])

    def add(self, part: str, count: int) -> None:
        """Add to the count of a part."""
        self.reach(part, self._parts.get(part, (0, 0))[0] + count)
