"""Errors of the store and its mirror."""

from collections.abc import Iterator
from contextlib import contextmanager

from ares.errors import UserError
from ares.store.files import remedy_for


class StoreError(UserError, RuntimeError):
    """The run directory cannot be used; the message names the file and what to do."""


class RunHeld(StoreError):
    """Another process is training the run."""


class DamagedArtifact(StoreError):
    """An artifact's content is not what was written."""


@contextmanager
def told(where: str, done: str) -> Iterator[None]:
    """Turn any failure into a StoreError that names the address: every file system's library raises its own errors."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        advice = remedy_for(error) or (
            "Check the address, the credentials and the network, then give the same command again: what was committed "
            "is safe"
        )
        raise StoreError(f"{where}: cannot be {done}: {str(error) or type(error).__name__}. {advice}") from error
