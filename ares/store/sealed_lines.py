"""An append-only file of lines with checksums: what a killed process appended is found again.

Covered: a line that was being written when the process died, or was damaged later, ends the file. Not covered: power
failures (lines are not synced, but a damaged one is noticed).
"""

import os
from pathlib import Path

from ares.store.commits import sealed_text, unsealed_text
from ares.store.errors import DamagedArtifact, StoreError
from ares.store.files import remedy_for


def read_lines(path: Path) -> list[str]:
    """The texts of a file's intact lines, none if it is absent; the file is cut off at the first damaged line."""
    if not path.exists():
        return []
    texts, intact = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            text = unsealed_text(line.decode())
        except (DamagedArtifact, UnicodeDecodeError):
            break
        if not line.endswith(b"\n"):
            break
        texts.append(text)
        intact += len(line)
    os.truncate(path, intact)
    return texts


def append_lines(path: Path, texts: list[str]) -> None:
    """Append texts, one line each, which survive a kill from here on; makes the folder. Raises StoreError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write("".join(f"{sealed_text(text)}\n" for text in texts).encode())
    except OSError as error:
        remedy = remedy_for(error, path.parent)
        raise StoreError(f"{path}: cannot be written: {error}. {remedy}") from error
