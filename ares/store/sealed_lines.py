"""An append-only file of lines with checksums: what a killed process appended is found again.

Covered: a line that was being written when the process died, or was damaged later, ends the file. Not covered: power
failures (lines are not synced, but a damaged one is noticed).
"""

import os
from pathlib import Path

from ares.store.commits import sealed_text, unsealed_text
from ares.store.errors import DamagedArtifact, StoreError
from ares.store.files import remedy_for


class SealedLines:
    """The lines of a file as they are; `append` adds some. Only one process at a time may append."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts: list[str] = []
        """Of the intact lines, up to the first damaged one."""
        self._intact = 0
        """Bytes of these lines; what follows them is cut off before something is appended."""
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
            try:
                text = unsealed_text(line.decode())
            except (DamagedArtifact, UnicodeDecodeError):
                break
            if not line.endswith(b"\n"):
                break
            self.texts.append(text)
            self._intact += len(line)

    @property
    def is_intact(self) -> bool:
        """Whether nothing follows the intact lines."""
        return not self.path.exists() or self.path.stat().st_size == self._intact

    def append(self, text: str) -> None:
        """Append a text, which survives a kill from here on; makes the folder. Raises StoreError."""
        line = f"{sealed_text(text)}\n".encode()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                if file.tell() > self._intact:
                    os.truncate(self.path, self._intact)
                file.write(line)
        except OSError as error:
            remedy = remedy_for(error, self.path.parent)
            raise StoreError(f"{self.path}: cannot be written: {error}. {remedy}") from error
        self.texts.append(text)
        self._intact += len(line)
