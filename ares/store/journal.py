"""An append-only file of rows as they arrive, until the artifact that holds them all is written.

Covered: a killed process's rows are found again, but for a line that was being written. Not covered: power failures
(lines are not synced); runs at a URL: a journal is not uploaded, so that other machines find artifacts only.
"""

import base64
import io
import os
from pathlib import Path

import pandas as pd

from ares.store.commits import sealed_text, unsealed_text
from ares.store.errors import DamagedArtifact, StoreError
from ares.store.files import remedy_for


class Journal:
    """The rows of one piece of work. key: identifies it; a file left under another key is deleted."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key
        self._kept = _whole_lines(path)
        if self._kept[:1] != [key]:
            self._kept = []
            self.end()

    def rows(self) -> pd.DataFrame | None:
        """What an earlier process added, in order; None: nothing."""
        tables = [pd.read_parquet(io.BytesIO(base64.b64decode(line))) for line in self._kept[1:]]
        return pd.concat(tables, ignore_index=True) if tables else None

    def add(self, rows: pd.DataFrame) -> None:
        """Append rows, which survive a kill from here on. Raises StoreError."""
        lines = [base64.b64encode(rows.to_parquet(index=False)).decode()]
        try:
            if not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                lines.insert(0, self.key)
            with self.path.open("ab") as file:
                file.write("".join(f"{sealed_text(line)}\n" for line in lines).encode())
        except OSError as error:
            remedy = remedy_for(error, self.path.parent)
            raise StoreError(f"{self.path}: cannot be written: {error}. {remedy}") from error

    def end(self) -> None:
        """Delete the file: the artifact is written."""
        if self.path.exists():
            self.path.unlink()


def _whole_lines(path: Path) -> list[str]:
    """The texts of a file's intact lines; the file is truncated at the first damaged one."""
    if not path.exists():
        return []
    texts, whole = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            text = unsealed_text(line.decode())
        except (DamagedArtifact, UnicodeDecodeError):
            break
        if not line.endswith(b"\n"):
            break
        texts.append(text)
        whole += len(line)
    os.truncate(path, whole)
    return texts
