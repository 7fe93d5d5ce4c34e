"""What can be wrong with a run directory. Here alone, because ares/store/store.py and ares/store/mirror.py both tell
it."""

from ares.errors import UserError


class StoreError(UserError, RuntimeError):
    """The run directory cannot be used; the message names the file and what to do."""


class DamagedArtifact(StoreError):
    """An artifact's content is not what was written."""
