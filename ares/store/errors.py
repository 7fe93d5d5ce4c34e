"""Errors of the store and its mirror."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from ares.errors import UserError

REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space and start the run again; the last commit is intact.",
    errno.EROFS: "The file system is read-only.",
    errno.EACCES: "Check who owns the directory.",
}
OTHER_REMEDY = (
    "Check the address, the credentials and the network, then give the same command again: what was committed is safe"
)


class StoreError(UserError, RuntimeError):
    """The run directory cannot be used; the message names the file and what to do."""


class DamagedArtifact(StoreError):
    """An artifact's content is not what was written."""


@contextmanager
def told(where: Path | str, done: str) -> Iterator[None]:
    """Turn failures into a StoreError that says where and what to do: at a path those of its file system, at an address
    any, since every file system's library raises its own errors."""
    on_disk = isinstance(where, Path)
    failures: tuple[type[Exception], ...] = (OSError, SafetensorError) if on_disk else (Exception,)
    try:
        yield
    except StoreError:
        raise
    except failures as error:
        found = re.search(r"os error (\d+)", str(error))  # safetensors tells it in the message alone
        number = int(found[1]) if found else getattr(error, "errno", None)
        advice = REMEDIES.get(number or 0, "" if on_disk else OTHER_REMEDY)
        raise StoreError(f"{where}: cannot be {done}: {str(error) or type(error).__name__}. {advice}") from error
