"""Python text to syntax trees, from any thread."""

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 counts the depth of a tree for all threads together: two that build one at a time raise SystemError."""


def parse(text: str, filename: str = "<text>") -> ast.Module:
    """The tree of a text. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, filename)
