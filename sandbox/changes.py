"""The order in which a test calls the program and changes what it holds: could the program see a change?

A function of the program's gets copies when the test runs apart. What the test does to the originals afterwards, a
later call must not depend on.
"""

import ast
import contextlib
from collections.abc import Iterator

Place = tuple[int, int]
"""Line and column in the text."""
_START, _END = (0, 0), (1 << 30, 0)


class Changes:
    """Calls of the program, variables that it was given, and changes, each with its place in the text."""

    def __init__(self) -> None:
        self._loops = 0
        self._last_call = _START
        self._given: dict[str, Place] = {}
        self._changed: list[tuple[str | None, Place]] = []

    @contextlib.contextmanager
    def repeated(self) -> Iterator[None]:
        """Around what may run many times: there everything comes both before and after everything else."""
        self._loops += 1
        yield
        self._loops -= 1

    def note_call(self, node: ast.expr) -> None:
        """The program is called here."""
        self._last_call = max(self._last_call, _END if self._loops else _place(node))

    def note_given(self, argument: ast.expr) -> None:
        """The program is given this."""
        for name in _named_in(argument):
            self._given.setdefault(name, _START if self._loops else _place(argument))

    def note_change(self, name: str | None, node: ast.expr) -> None:
        """The test changes a variable of its own, or something that came from the program (None)."""
        self._changed.append((name, _place(node)))

    def may_be_seen(self) -> bool:
        """Whether a call may come after a change of what the program returned or was given."""
        return any(
            place < self._last_call and (name is None or self._given.get(name, place) < place)
            for name, place in self._changed
        )


def _place(node: ast.expr) -> Place:
    return node.lineno, node.col_offset


def _named_in(node: ast.expr) -> Iterator[str]:
    """Variables that the program gets to see when it is given this: not those of which a call takes a copy."""
    if isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, ast.Call):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _named_in(child)
