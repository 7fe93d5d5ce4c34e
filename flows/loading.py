"""Import large libraries with garbage collection off, then and later exempt: a collection takes a third of a second."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Import inside. Everything that exists afterwards is exempt from garbage collection for good."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
