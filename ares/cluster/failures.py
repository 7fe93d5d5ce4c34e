"""Errors of actors: a line for the user, and the trace in the run directory.

Not covered: which deaths are worth another attempt (ares/cluster/cluster.py).
"""

import re

from ray.exceptions import OutOfMemoryError, RayActorError

from ares.errors import UserError
from ares.store import RunStore

DEATHS = (RayActorError, OutOfMemoryError)
"""What a call into a dead actor raises; the second if Ray's memory monitor killed it."""
ROLES = {"LearnerActor": "learner", "EngineActor": "engine"}
"""Roles of actors, by the class name in the first line of Ray's error."""
_COLOUR = re.compile(r"\x1b\[\d+m")


class WorkerError(UserError, RuntimeError):
    """An actor raised, or died too often; the run can be resumed once the cause is gone."""


def failure(role: str, error: Exception, store: RunStore) -> WorkerError:
    """What an actor raised, in one line; its trace goes to a file of the run directory."""
    trace = _COLOUR.sub("", str(error))
    role = next((role for kind, role in ROLES.items() if kind in trace.partition("\n")[0]), role)
    cause = getattr(error, "cause", None)
    if cause is None:  # it failed while it was made
        told = trace.strip().rpartition("\n")[2]
    else:
        kind = "" if isinstance(cause, UserError) else f"{type(cause).__name__}: "
        told = (kind + str(cause).partition("\n")[0]).removesuffix(": ")
    file = store.here(f"errors/{role}.txt")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(trace + "\n", encoding="utf-8")
    except OSError as unwritten:  # the disk that was too full for what it wrote
        return WorkerError(f"The {role} failed: {told} (its trace cannot be written: {unwritten.strerror})")
    return WorkerError(f"The {role} failed: {told} (its trace: {file})")
