"""The order of a test's calls and changes: could the program or the test notice that they exchange copies?

When the test runs apart, the program gets copies, and the test gets copies of what it returns. A later call must then
not depend on what the test has done to the originals. And after a call made for its side effects (its result is not
used), the test must not look at an older result, which may be part of what the call changed.
"""

import ast
import contextlib
from collections.abc import Iterator

from sandbox.parsing import below

Place = tuple[int, int]
"""Line and column in the text."""
_START, _END = (0, 0), (1 << 30, 0)


class Changes:
    """Calls of the program, variables passed to it, and changes, each with its place in the text."""

    def __init__(self) -> None:
        self._loops = 0
        self._last_call = _START
        self._given: dict[str, Place] = {}
        self._changed: list[tuple[str | None, Place]] = []
        self._results: list[tuple[Place, str]] = []  # results of the program, by variable
        self._looks: list[tuple[Place, str]] = []
        self._effects: list[tuple[Place, frozenset[str]]] = []  # calls whose result is unused, and variables passed

    @contextlib.contextmanager
    def repeated(self) -> Iterator[None]:
        """For code that may run many times: everything in it comes both before and after everything else."""
        self._loops += 1
        yield
        self._loops -= 1

    def note_call(self, node: ast.expr) -> None:
        """The program is called here."""
        self._last_call = max(self._last_call, _END if self._loops else _place(node))

    def note_given(self, argument: ast.expr) -> None:
        """The program is passed this."""
        for name in _named_in(argument):
            self._given.setdefault(name, _START if self._loops else _place(argument))

    def note_change(self, name: str | None, node: ast.expr) -> None:
        """The test changes a variable of its own, or something that came from the program (None)."""
        self._changed.append((name, _place(node)))

    def note_result(self, target: ast.Name) -> None:
        """A variable is bound to something from the program."""
        self._results.append((_place(target), target.id))

    def note_look(self, node: ast.Name) -> None:
        """A variable is looked at."""
        self._looks.append((_place(node), node.id))

    def note_effect(self, call: ast.Call) -> None:
        """The program is called, and its result is not used."""
        given = (name for part in (*call.args, *(key.value for key in call.keywords)) for name in _named_in(part))
        self._effects.append((_place(call), frozenset(given)))

    def may_be_seen(self) -> bool:
        """Whether the program or the test may miss a change because it has a copy."""
        return any(
            place < self._last_call and (name is None or self._given.get(name, place) < place)
            for name, place in self._changed
        ) or any(self._is_outdated(*effect) for effect in self._effects)

    def _is_outdated(self, effect: Place, given: frozenset[str]) -> bool:
        """Whether a result from before this effect is looked at after it; changes to arguments are carried over."""
        for place, name in self._looks:
            if place > effect and name not in given:
                last = max((bound for bound, other in self._results if other == name and bound < place), default=place)
                if last < effect:
                    return True
        return False


def _place(node: ast.expr) -> Place:
    return node.lineno, node.col_offset


def _named_in(node: ast.expr) -> Iterator[str]:
    """Variables that the program sees when it is passed this: not those that are copied by a call."""
    if isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, ast.Call):
        for child in below(node):
            if isinstance(child, ast.expr):
                yield from _named_in(child)
