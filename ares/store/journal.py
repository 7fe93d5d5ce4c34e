"""The rows of one piece of work as they arrive, until the artifact that holds them all is written.

Not covered: runs at a URL: a journal is not uploaded, so that other machines find artifacts only.
"""

import base64
import io
from pathlib import Path

import pandas as pd

from ares.store.sealed_lines import append_lines, read_lines


class Journal:
    """The rows of one piece of work. key: identifies it; a file left under another key is deleted."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key
        self._kept = read_lines(path)
        if self._kept[:1] != [key]:
            self._kept = []
            self.end()

    def rows(self) -> pd.DataFrame | None:
        """What an earlier process added, in order; None: nothing."""
        tables = [pd.read_parquet(io.BytesIO(base64.b64decode(line))) for line in self._kept[1:]]
        return pd.concat(tables, ignore_index=True) if tables else None

    def add(self, rows: pd.DataFrame) -> None:
        """Append rows, which survive a kill from here on. Raises StoreError."""
        line = base64.b64encode(rows.to_parquet(index=False)).decode()
        append_lines(self.path, [line] if self.path.exists() else [self.key, line])

    def end(self) -> None:
        """Delete the file: the artifact is written."""
        if self.path.exists():  # a path that cannot be is an error of the first row, not of this
            self.path.unlink()
