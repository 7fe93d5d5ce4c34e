"""What can be wrong with a run directory. Here alone, because several modules of this package tell it."""

from collections.abc import Iterator
from contextlib import contextmanager

from ares.errors import UserError


class StoreError(UserError, RuntimeError):
    """The run directory cannot be used; the message names the file and what to do."""


class RunHeld(StoreError):
    """Another process trains the run."""


class DamagedArtifact(StoreError):
    """An artifact's content is not what was written."""


class ObjectChanged(Exception):
    """An object is not, or no longer, what a write was meant for."""


@contextmanager
def told(where: str, done: str) -> Iterator[None]:
    """Say of any failure which address it is about: every file system raises what its own library does."""
    try:
        yield
    except (StoreError, ObjectChanged):
        raise
    except Exception as error:
        raise StoreError(
            f"{where}: cannot be {done}: {str(error) or type(error).__name__}. Check the address, the credentials "
            "and the network, then give the same command again: what was committed is there"
        ) from error
