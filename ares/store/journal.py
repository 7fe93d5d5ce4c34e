"""Rows kept as they come, until the artifact that holds them all is written: a file to which lines are added.

Covered: what a killed process added is found, a line that was being written is not. Not covered: power failures (a line
is not synced), the URL of a run: another machine finds no journal, only artifacts.
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
    """The rows of one piece of work. key: what decides them; what another key left is dropped."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key
        self._kept = _whole_lines(path)
        if self._kept[:1] != [key]:
            self._kept = []
            self.end()

    def rows(self) -> pd.DataFrame | None:
        """What an earlier process added, in its order; None: nothing."""
        tables = [pd.read_parquet(io.BytesIO(base64.b64decode(line))) for line in self._kept[1:]]
        return pd.concat(tables, ignore_index=True) if tables else None

    def add(self, rows: pd.DataFrame) -> None:
        """Keep rows; a killed process has them from here on. Raises StoreError."""
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
        """Delete the file: the artifact is there."""
        if self.path.exists():
            self.path.unlink()


def _whole_lines(path: Path) -> list[str]:
    """The texts of a file's lines up to the first that is not as it was written, at which the file is cut off."""
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
