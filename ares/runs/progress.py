"""How far the parts of a step that are under way have come, for whoever shows it.

Not covered: steps, which are counted by commits; how it is shown (ares/reports/terminal.py).
"""

from collections.abc import Callable


class Progress:
    """Counts, by part: responses that are sampled, optimiser steps that are done. `watch` is told of each change."""

    def __init__(self) -> None:
        self.watch: Callable[[str, int, int], None] = lambda part, done, total: None
        """Takes a part, how much of it is done, and how much it is in all."""
        self._parts: dict[str, tuple[int, int]] = {}

    def begin(self, part: str, total: int) -> None:
        """A part begins; also again, as when more is drawn to fill a batch."""
        self._parts[part] = (0, total)
        self.watch(part, 0, total)

    def reach(self, part: str, done: int) -> None:
        """So much of a part is done; nothing when it has not begun."""
        if part in self._parts:
            total = self._parts[part][1]
            self._parts[part] = (min(done, total), total)
            self.watch(part, *self._parts[part])

    def add(self, part: str, count: int) -> None:
        """So much more of a part is done."""
        self.reach(part, self._parts.get(part, (0, 0))[0] + count)
