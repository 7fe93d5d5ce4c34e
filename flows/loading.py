"""Importing large libraries without looking for garbage among them, then or later: a look takes a third of a second."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Import inside. What is there afterwards counts as in use for good, unused circles among it included."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
